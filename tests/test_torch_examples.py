"""The examples in plain torch: each stops, is killed and resumes with the losses of an undisturbed run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.backends.harness import Run, fsdpctl
from tests.interrupted import in_hold, kill_at_step, stop_at_step
from tests.services import require

EXAMPLES = Path(__file__).parents[1] / "examples"


@dataclass(frozen=True)
class Example:
    """A folder below examples/, as few steps of it as can be stopped and killed in between, and what it logs."""

    name: str
    steps: int
    script: str
    override: Callable[[Path], str]
    logged: tuple[str, ...]


def write_digits(directory: Path) -> None:
    """Write noisy pictures of ten classes in the four files of MNIST."""
    import torch

    draw = torch.Generator().manual_seed(0)
    classes = torch.rand(10, 28, 28, generator=draw)
    for part, count in (("train", 200), ("t10k", 51)):
        labels = torch.randint(10, (count,), generator=draw)
        images = (classes[labels] * 0.7 + torch.rand(count, 28, 28, generator=draw) * 0.3) * 255
        for name, values in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
            (directory / name).write_bytes(bytes([0, 0, 8, values.ndim]) + sizes + values.byte().numpy().tobytes())


def mnist_args(directory: Path) -> str:
    write_digits(directory)
    return f"args=[--data, {directory}, --steps, '80', --batch, '8', --save-every, '30']"


MNIST = Example("mnist", 80, "train.py", mnist_args, ("FSDPLinear(in_features=9216", "accuracy ", "peak memory "))
TRAIN = Example("train_fsdp", 100, "train_fsdp.py", lambda _: "args=[config/tiny_fsdp.yaml]", ("step 100/100  loss ",))
TOUR = Example(
    "fsdp2_tour",
    100,
    "train.py",
    lambda _: "env.STEPS='100'",
    (
        "LOCAL    0 collectives",
        "SHARDED  0 collectives",
        "SHARDED -> FULL -> SHARDED: equal",
        "frozen   whole [64, 64]",
    ),
)


def losses(run: Run) -> dict[int, float]:
    """Return the loss by step; fails where a step is missing, or was repeated with another loss."""
    found: dict[int, float] = {}
    for line in run.metrics():
        assert found.setdefault(line["step"], line["loss"]) == line["loss"], line
    assert list(found) == list(range(1, len(found) + 1))
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("example", [MNIST, TRAIN, TOUR], ids=lambda example: example.name)
def test_stop_resume_and_a_kill_change_no_loss(example: Example, tmp_path: Path) -> None:
    require("torch")
    override = example.override(tmp_path)
    with in_hold(EXAMPLES / example.name) as hold:
        undisturbed = hold.submit(override, nodes=1)
        assert undisturbed.wait_ended()["state"] == "SUCCEEDED", undisturbed.describe()
        expected = losses(undisturbed)
        assert len(expected) == example.steps

        run = hold.submit(override, nodes=2)
        stop_at_step(run, example.script, 5, lambda: fsdpctl("stop", run.run_id, cwd=run.cwd))
        assert run.status()["state"] == "STOPPED", run.describe()
        stopped_at = len(losses(run))
        assert 5 <= stopped_at < example.steps
        hold.resume(run)
        kill_at_step(run, example.script, stopped_at + 3)
        status = run.wait_ended()
        assert (status["state"], status["attempt"], status["step"]) == ("SUCCEEDED", 3, example.steps), run.describe()
    assert losses(run) == expected
    text = "".join(path.read_text() for path in run.paths.root.glob("attempts/3/node-*/**/*.log"))
    assert not [words for words in example.logged if words not in text]
