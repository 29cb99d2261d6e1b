"""A checkpoint from a stranger runs no code, even if its manifest is in order."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fsdpctl.contract import CliExit
from fsdpctl.contract.formats.manifest import digest_file, read_manifest, write_manifest
from fsdpctl.contract.paths import checkpoint_name
from tests.train.ranks import Config, start

NEWEST = f"checkpoints/{checkpoint_name(12)}"


class Evil:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


def evil_table(checkpoint: Path, trace: Path) -> None:
    (checkpoint / ".metadata").write_bytes(pickle.dumps(Evil(trace)))


def evil_bytes_entry(checkpoint: Path, trace: Path) -> None:
    from torch.distributed.checkpoint.metadata import BytesStorageMetadata

    metadata = _read_table(checkpoint)
    key = "model.norm.weight"
    metadata.state_dict_metadata[key] = BytesStorageMetadata()
    _point_to_evil_file(checkpoint, metadata, key, trace)


def evil_tensor(checkpoint: Path, trace: Path) -> None:
    _point_to_evil_file(checkpoint, _read_table(checkpoint), "model.norm.weight", trace)


def _read_table(checkpoint: Path) -> Any:
    return pickle.loads((checkpoint / ".metadata").read_bytes())  # noqa: S301 - our own


def _point_to_evil_file(checkpoint: Path, metadata: Any, key: str, trace: Path) -> None:
    buffer = io.BytesIO()
    torch.save(Evil(trace), buffer)
    (checkpoint / "__9_0.distcp").write_bytes(buffer.getvalue())
    for index, info in metadata.storage_data.items():
        if index.fqn == key:
            size = len(buffer.getvalue())
            metadata.storage_data[index] = replace(info, relative_path="__9_0.distcp", offset=0, length=size)
    (checkpoint / ".metadata").write_bytes(pickle.dumps(metadata))


def put_in_order(checkpoint: Path) -> None:
    """Let the manifest vouch for all that is there."""
    manifest = read_manifest(checkpoint)
    files = {p.name: digest_file(p) for p in checkpoint.iterdir() if p.name != "manifest.json"}
    write_manifest(checkpoint, replace(manifest, files=files))


@pytest.mark.parametrize("attack", [evil_table, evil_bytes_entry, evil_tensor])
def test_a_hostile_checkpoint_runs_nothing(
    straight: Path, tmp_path: Path, config: Config, attack: Callable[[Path, Path], None]
) -> None:
    checkpoint, trace = straight / NEWEST, tmp_path / "trace"
    attack(checkpoint, trace)
    put_in_order(checkpoint)
    ranks = start(straight, {**config, "steps": 20})
    assert ranks.wait() == [CliExit.USAGE]  # a ConfigError, after which no run restarts
    last = ranks.log().splitlines()[-1]
    assert last.startswith("train: ") and "UnpicklingError" in last
    assert not trace.exists()


def test_the_attack_works_on_torch_alone(tmp_path: Path) -> None:
    """Without this, the tests above could pass for the wrong reason."""
    trace = tmp_path / "trace"
    pickle.loads(pickle.dumps(Evil(trace)))  # noqa: S301 - this is the point
    assert trace.exists()


def test_the_manifest_is_json_with_what_a_reader_wants(straight: Path) -> None:
    body = json.loads((straight / NEWEST / "manifest.json").read_text())["manifest"]
    assert (body["step"], body["world"], body["mesh"]) == (12, 2, [1, 2])
    assert body["config"]["model"]["d_model"] == 32
    assert body["data_fingerprint"] == "three-words-1"
