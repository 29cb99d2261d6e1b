"""What the callback of Lightning reports, and which checkpoint of a stop is the newest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fsdpctl.integrations.lightning import find_stopped, loss_of, publish  # noqa: E402


@pytest.mark.parametrize(
    ("outputs", "loss"),
    [
        ({"loss": torch.tensor(0.5)}, 2.0),  # Lightning has divided it by the four batches of a step
        ({"loss": torch.tensor([0.5])}, 2.0),
        ({"loss": None}, None),
        ({}, None),  # manual optimization, and nothing returned
        ({"error": torch.tensor(1.0)}, None),
        ({"loss": torch.ones(3)}, None),
        (None, None),
        (torch.tensor(1.0), None),
    ],
)
def test_the_loss_is_that_of_the_training_step(outputs: Any, loss: float | None) -> None:
    assert loss_of(outputs, 4) == loss


def test_a_checkpoint_of_a_stop_replaces_the_others_once_it_is_whole(tmp_path: Path) -> None:
    assert find_stopped(tmp_path / "no-such-folder") is None
    (tmp_path / "stopped.ckpt").touch()  # of an older version
    (tmp_path / "stopped_early.txt").touch()
    assert find_stopped(tmp_path) == "stopped"
    for number in (2, 10):
        (tmp_path / f"stopped-{number}.ckpt").mkdir()
        (tmp_path / f"stopped-{number}.ckpt" / "shard").touch()
    partial = tmp_path / "stopped-11.ckpt.partial"
    partial.mkdir()
    assert find_stopped(tmp_path) == "stopped-10"
    publish(partial, tmp_path / "stopped-11.ckpt")
    assert find_stopped(tmp_path) == "stopped-11"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stopped-11.ckpt", "stopped_early.txt"]
