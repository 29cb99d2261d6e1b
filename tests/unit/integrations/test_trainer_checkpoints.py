"""Which checkpoint of transformers' Trainer a resume takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract import Env
from fsdpctl.integrations.trainer_checkpoints import find_own_checkpoint, get_last_checkpoint, mark_saved
from tests.services import require


def save(folder: Path, step: int, *files: str) -> str:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    for name in files:
        (path / name).touch()
    return str(path)


def test_the_last_checkpoint_is_complete(tmp_path: Path) -> None:
    assert get_last_checkpoint(str(tmp_path / "no-such-folder")) is None
    save(tmp_path, 9, "trainer_state.json")
    newest = save(tmp_path, 100, "trainer_state.json")
    save(tmp_path, 110, "rng_state_1.pth")  # one rank has saved, the other was killed
    save(tmp_path, 120, "trainer_state.json", "checkpoint-is-incomplete.txt")
    (tmp_path / "checkpoint-best").mkdir()
    assert get_last_checkpoint(str(tmp_path)) == newest


def test_only_an_older_attempt_of_the_same_run_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def be(run_id: str, attempt: int) -> None:
        monkeypatch.setenv(Env.RUN_ID, run_id)
        monkeypatch.setenv(Env.ATTEMPT, str(attempt))

    be("mine-a1b2", 1)
    save(tmp_path, 300, "trainer_state.json")  # of no run
    own = save(tmp_path, 100, "trainer_state.json")
    mark_saved(str(tmp_path), 100)
    assert find_own_checkpoint(str(tmp_path)) is None  # a second `train` of the same attempt starts anew
    be("mine-a1b2", 2)
    assert find_own_checkpoint(str(tmp_path)) == own
    be("other-c3d4", 2)
    assert find_own_checkpoint(str(tmp_path)) is None


def test_a_trainer_that_saves_in_another_place_is_left_alone(tmp_path: Path) -> None:
    mark_saved(str(tmp_path), 100)
    assert not list(tmp_path.iterdir())


def test_values_by_the_names_of_a_report_are_no_values() -> None:
    require("transformers")
    from fsdpctl.integrations.transformers import values_of

    logs = {"loss": 1.5, "epoch": 2, "total": 3.0, "number": 4, "step": 5, "time": 6.0, "note": "text"}
    assert values_of(logs) == {"loss": 1.5, "epoch": 2}
