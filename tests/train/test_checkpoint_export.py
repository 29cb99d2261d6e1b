"""A checkpoint exported for other programs is the same model there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp

from fsdpctl.checkpoints.export import export_hugging_face, export_torch
from fsdpctl.checkpoints.listing import Stored, examine, take_whole
from fsdpctl.checkpoints.tensors import ShardReader
from fsdpctl.contract import NodeExit
from fsdpctl.contract.codec import decode, encode
from fsdpctl.contract.formats.manifest import MANIFEST_FORMAT, Manifest
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.contract.trainer.llama.config import LlamaConfig
from fsdpctl.errors import FsdpctlError, RunFailed, UsageError
from tests.services import require
from tests.testbed.disks import Mount
from tests.train import faults
from tests.train.ranks import Config, metrics, start, train
from tests.train.test_hostile_checkpoint import evil_bytes_entry, evil_table, evil_tensor, put_in_order
from train.model.llama.decoder import Llama
from train.model.values import init_weights


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


def whole(run: Path, step: int | None) -> Stored:
    """Return what a command takes of a run that has ended."""
    with take_whole(RunPaths(run), step) as taken:
        return taken.stored


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

    stored = whole(run, None)
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


SHAPES: dict[str, dict[str, Any]] = {
    "one head for each key": {"kv_heads": 4},
    "one key for all heads": {"kv_heads": 1},
    "heads wider than the model": {"head_dim": 32, "kv_heads": 2},
    "tied": {"tie_embeddings": True, "kv_heads": 2, "rope_theta": 500_000.0, "norm_eps": 1e-6},
    "one layer, an odd vocabulary": {"layers": 1, "vocab_size": 131, "kv_heads": 2},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_transformers_loads_each_shape(shape: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from transformers import AutoModelForCausalLM

    sizes = {"vocab_size": 128, "d_model": 64, "layers": 2, "heads": 4, "head_dim": 16, "ffn": 96, "seq_len": 32}
    config = decode(LlamaConfig, {**sizes, **shape})
    ours = Llama(config).eval()
    init_weights(ours, seed=1)
    ours.fill_buffers()
    export_hugging_face(store(ours, tmp_path), tmp_path / "hf")
    theirs, report = AutoModelForCausalLM.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not any(report.values()), report
    tokens = torch.randint(0, 128, (3, 32), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, got = ours.logits(tokens), theirs(tokens).logits
    assert expected.std() > 0.01
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def store(model: Llama, root: Path) -> Stored:
    """Save a model as a run on one rank does."""
    directory = root / checkpoint_name(1)
    tensors = {f"model.{name}": value.detach() for name, value in model.named_parameters()}
    dcp.save(tensors, checkpoint_id=directory, no_dist=True)
    config = {"model": encode(model.config)}
    manifest = Manifest(MANIFEST_FORMAT, 1, 1, 1, (1, 1), config, "data", torch.__version__, 1.0, {})
    return Stored(directory, manifest)


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
    export(whole(straight_run, None), tmp_path / "out")
    assert len(given) > 10


def test_a_file_that_exists_is_not_written_over(straight: Path, tmp_path: Path) -> None:
    (tmp_path / "model.pth").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        export_torch(whole(straight, 8), tmp_path / "model.pth")
    assert (tmp_path / "model.pth").read_text() == "mine"


EXPORT = """
import sys
from pathlib import Path
from fsdpctl.checkpoints.export import export_torch
from fsdpctl.checkpoints.listing import take_whole
from fsdpctl.contract.paths import RunPaths
with take_whole(RunPaths(Path(sys.argv[1])), None) as taken:
    export_torch(taken.stored, Path(sys.argv[2]))
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
        export_torch(whole(straight, 12), tmp_path / "model.pth")
    assert not trace.exists()
    assert [path.name for path in tmp_path.glob("*model*")] == []


def test_a_damaged_checkpoint_is_not_exported(straight: Path) -> None:
    shard = straight / "checkpoints/step-00000012/__0_0.distcp"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert whole(straight, None).path.name == "step-00000008"
    with pytest.raises(RunFailed, match=r"step-00000012: __0_0\.distcp has"):
        whole(straight, 12)
    with pytest.raises(UsageError, match="no checkpoint of step 9"):
        whole(straight, 9)


def test_a_checkpoint_that_is_read_outlives_the_retention_of_its_run(tmp_path: Path, config: Config) -> None:
    """Until it has been read; and the newest one is taken, not an older one that is about to go."""
    config.update(steps=100_000, checkpoint={"every_steps": 2, "keep": 1})
    ranks = start(tmp_path, config, fault=faults.slow_steps, fault_args=(0.02,))
    ranks.wait_for_log(r"saved step-00000002")
    for _ in range(3):
        with take_whole(RunPaths(tmp_path), None) as taken:
            assert taken.passed_over == ()
            ranks.wait_for_log(f"(?s){taken.stored.path.name} is kept.*(saved.*){{4}}")
            assert examine(taken.stored).broken is None and taken.stored.path.is_dir()
        later = max(metrics(tmp_path)[-1]["step"], 1) + 6
        ranks.wait_for_log(rf"saved step-{later - later % 2:08d}")
        assert not taken.stored.path.exists()
    ranks.signal(0, signal.SIGTERM)
    assert ranks.wait() == [NodeExit.STOPPED]
    assert not list((tmp_path / "checkpoints").glob("*.lease-*"))
