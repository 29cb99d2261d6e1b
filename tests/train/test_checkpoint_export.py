"""A checkpoint exported for other programs is the same model there."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fsdpctl.checkpoints.export import export_hugging_face, export_torch
from fsdpctl.checkpoints.listing import Stored, choose_whole
from fsdpctl.checkpoints.tensors import ShardReader
from fsdpctl.contract.codec import decode
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.trainer.llama.config import LlamaConfig
from fsdpctl.errors import FsdpctlError, RunFailed, UsageError
from tests.services import require
from tests.testbed.disks import Mount
from tests.train.ranks import Config, train
from tests.train.test_hostile_checkpoint import evil_bytes_entry, evil_table, evil_tensor, put_in_order
from train.model.llama.decoder import Llama


@pytest.fixture(scope="session")
def tied_run(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    from tests.train.conftest import tiny_config

    run, config = tmp_path_factory.mktemp("tied"), tiny_config(data_dir)
    config["model"].update(tie_embeddings=True, rope_theta=500_000.0, kv_heads=2)
    train(run, {**config, "steps": 4}, 2, 2)
    return run


@pytest.fixture(params=["straight_run", "tied_run"])
def run(request: pytest.FixtureRequest) -> Path:
    """Return a run on two ranks with its own head, or one on a mesh of 2 x 2 that ties it. For reading only."""
    found: Path = request.getfixturevalue(request.param)
    return found


def decoder_of(run: Path, state: dict[str, Any]) -> Llama:
    config: Config = json.loads((run / "trainer.json").read_text())
    model = Llama(decode(LlamaConfig, config["model"]))
    model.load_state_dict(state)
    model.fill_buffers()
    return model.eval()


def test_transformers_gives_the_same_logits(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from transformers import AutoModelForCausalLM

    stored = choose_whole(RunPaths(run), None)
    export_torch(stored, tmp_path / "model.pth")
    export_hugging_face(stored, tmp_path / "hf")
    ours = decoder_of(run, torch.load(tmp_path / "model.pth", weights_only=True))
    theirs, report = AutoModelForCausalLM.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not any(report.values()), report
    tokens = torch.randint(0, 128, (3, 32), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, got = ours.logits(tokens), theirs(tokens).logits
    assert expected.std() > 0.1
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("export", [export_torch, export_hugging_face])
def test_one_tensor_at_a_time_is_in_memory(
    straight_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, export: Callable[[Stored, Path], None]
) -> None:
    given: list[weakref.ref[torch.Tensor]] = []
    read = ShardReader.read

    def watched(reader: ShardReader, name: str) -> torch.Tensor:
        assert [earlier for earlier in given if earlier() is not None] == []
        whole = read(reader, name)
        given.append(weakref.ref(whole))
        return whole

    monkeypatch.setattr(ShardReader, "read", watched)
    export(choose_whole(RunPaths(straight_run), None), tmp_path / "out")
    assert len(given) > 10


def test_a_file_that_exists_is_not_written_over(straight: Path, tmp_path: Path) -> None:
    (tmp_path / "model.pth").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        export_torch(choose_whole(RunPaths(straight), 8), tmp_path / "model.pth")
    assert (tmp_path / "model.pth").read_text() == "mine"


EXPORT = """
import sys
from pathlib import Path
from fsdpctl.checkpoints.export import export_torch
from fsdpctl.checkpoints.listing import Stored, choose_whole
from fsdpctl.checkpoints.tensors import ShardReader
from fsdpctl.contract.paths import RunPaths
export_torch(choose_whole(RunPaths(Path(sys.argv[1])), None), Path(sys.argv[2]))
"""


@pytest.mark.parametrize("room", [0, 16_384])
def test_a_full_disk_is_reported_and_nothing_is_left(straight_run: Path, small_disk: Mount, room: int) -> None:
    """In a process of its own: a map of a file without room ends it."""
    small_disk.fill(leave=room)
    command = [sys.executable, "-c", EXPORT, str(straight_run), str(small_disk.path / "model.pth")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("model.pth: No space left on device")
    assert [path.name for path in small_disk.path.iterdir()] == ["ballast"]


@pytest.mark.parametrize("attack", [evil_table, evil_bytes_entry, evil_tensor])
def test_a_hostile_checkpoint_runs_nothing(
    straight: Path, tmp_path: Path, attack: Callable[[Path, Path], None]
) -> None:
    checkpoint, trace = straight / "checkpoints/step-00000012", tmp_path / "trace"
    attack(checkpoint, trace)
    put_in_order(checkpoint)
    with pytest.raises(FsdpctlError):
        export_torch(choose_whole(RunPaths(straight), 12), tmp_path / "model.pth")
    assert not trace.exists()
    assert [path.name for path in tmp_path.glob("*model*")] == []


def test_a_damaged_checkpoint_is_not_exported(straight: Path) -> None:
    shard = straight / "checkpoints/step-00000012/__0_0.distcp"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert choose_whole(RunPaths(straight), None).path.name == "step-00000008"
    with pytest.raises(RunFailed, match=r"step-00000012: __0_0\.distcp has"):
        choose_whole(RunPaths(straight), 12)
    with pytest.raises(UsageError, match="no checkpoint of step 9"):
        choose_whole(RunPaths(straight), 9)
