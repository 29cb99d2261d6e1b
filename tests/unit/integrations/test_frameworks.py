"""What the callbacks do in the real frameworks, on one rank; the examples do it on two."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.contract import Env
from fsdpctl.integrations.lightning_ranks import describe_wrong_ranks
from fsdpctl.node.agent.after_import import attach_integrations
from fsdpctl.node.os import signals
from tests.services import require


@pytest.fixture
def stop_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stop is requested before the first step, as in attempt 1 of a run."""
    monkeypatch.setenv(Env.STOP_FILE, str(tmp_path / "stop"))
    monkeypatch.setenv(Env.CHECKPOINT_DIR, str(tmp_path))
    monkeypatch.setenv(Env.ATTEMPT, "1")
    monkeypatch.setenv(Env.RUN_ID, "mine-a1b2")
    (tmp_path / "stop").touch()
    return tmp_path / "stop"


@pytest.fixture(autouse=True)
def _hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


@pytest.mark.slow
def test_lightning_by_its_old_name_stops_and_resumes(
    stop_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("lightning")
    monkeypatch.chdir(tmp_path)
    attach_integrations()
    import pytorch_lightning as pl
    import torch
    from pytorch_lightning.demos.boring_classes import BoringModel

    def fit(attempt: int) -> pl.Trainer:
        monkeypatch.setenv(Env.ATTEMPT, str(attempt))
        trainer = pl.Trainer(
            accelerator="cpu", max_steps=3, logger=False, enable_progress_bar=False, limit_val_batches=0
        )
        trainer.fit(BoringModel())
        return trainer

    monkeypatch.setattr(signals, "ignore", lambda: None)  # in this process other tests follow
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as end:
        fit(1)
    assert end.value.code == 0
    assert torch.load(tmp_path / "stopped-1.ckpt", weights_only=False)["global_step"] == 1
    with pytest.raises(SystemExit):
        fit(2)
    assert torch.load(tmp_path / "stopped-2.ckpt", weights_only=False)["global_step"] == 2
    assert not (tmp_path / "stopped-1.ckpt").exists()
    stop_file.unlink()
    assert fit(3).global_step == 3
    signal.signal(signal.SIGTERM, before)


TRAINER = """
import signal, sys
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from fsdpctl.integrations.transformers import StopCallback

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def forward(self, x, labels):
        return {"loss": (self.layer(x) - labels).square().mean()}

class Look(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        print(state.global_step, signal.getsignal(signal.SIGTERM).__name__)

data = [{"x": torch.ones(1), "labels": torch.ones(1)}] * 8
options = dict(max_steps=3, enable_jit_checkpoint=True, report_to="none", disable_tqdm=True, use_cpu=True)
trainer = Trainer(Model(), TrainingArguments("out", **options), train_dataset=data, callbacks=[StopCallback(), Look()])
assert "CheckpointManager" in repr(signal.getsignal(signal.SIGTERM))
trainer.train()
print("after the stop")
"""


@pytest.mark.slow
def test_trainer_with_the_callback_in_the_script_and_just_in_time_checkpoints(stop_file: Path, tmp_path: Path) -> None:
    """Its own handler of TERM does not wait for the other ranks: the callback replaces it."""
    require("transformers")
    require("accelerate")
    done = subprocess.run([sys.executable, "-c", TRAINER], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["1 _do_nothing"]), done.stderr
    assert (tmp_path / "out" / "checkpoint-1" / "fsdpctl-run.txt").read_text() == "mine-a1b2 1"


def test_a_missing_framework_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require("torch")
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.delitem(sys.modules, "fsdpctl.integrations.transformers", raising=False)
    with pytest.raises(ImportError, match=r"integrations.transformers needs transformers: pip install transformers"):
        importlib.import_module("fsdpctl.integrations.transformers")
    with pytest.raises(ImportError, match=r"integrations.lightning needs lightning\.pytorch: pip install lightning"):
        importlib.import_module("fsdpctl.integrations.lightning").callbacks()


@pytest.mark.parametrize(
    ("num_nodes", "devices", "world", "local_world", "fits"),
    [
        (2, 1, 2, 1, True),
        (2, 1, 2, 2, False),  # rank 1 of the node has no device
        (1, 2, 4, 2, False),
        (2, 8, 2, 2, True),  # a rehearsal
        (1, 1, 1, 1, True),
    ],
)
def test_a_trainer_of_lightning_for_fewer_ranks_than_there_are_is_named(
    num_nodes: int, devices: int, world: int, local_world: int, fits: bool
) -> None:
    assert (describe_wrong_ranks(num_nodes, devices, world, local_world) is None) is fits
