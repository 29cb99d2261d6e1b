"""`trainer.init_from` at submit."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract.codec import encode
from fsdpctl.contract.formats.manifest import MANIFEST_FORMAT, Manifest, write_manifest
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.contract.trainer.hugging_face import hf_config
from fsdpctl.errors import UsageError
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import load_job
from fsdpctl.verbs.pretrained import resolve_weights


def job_from(directory: str | None) -> JobSpec:
    job = load_job("llm-tiny")
    assert job.trainer is not None
    return job.model_copy(update={"trainer": replace(job.trainer, init_from=directory)})


def safetensors(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def save(run: RunPaths, step: int, config: dict[str, Any]) -> None:
    """Write the manifest of a checkpoint, and a table of contents that is not read here."""
    directory = run.checkpoints / checkpoint_name(step)
    directory.mkdir(parents=True)
    (directory / ".metadata").write_bytes(b"")
    write_manifest(directory, Manifest(MANIFEST_FORMAT, step, 1, 1, (1, 1), config, "data", "2.13.0", 1.0, {}))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    job = load_job("llm-tiny")
    assert job.trainer is not None
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/config.json").write_text(json.dumps(hf_config(job.trainer.model)))
    (tmp_path / "weights/model.safetensors").write_bytes(safetensors(b'{"x": {"data_offsets": [0, 4]}}', b"1234"))
    return tmp_path / "weights"


def test_a_directory_that_fits_becomes_absolute(weights: Path) -> None:
    job = resolve_weights(job_from("weights"), weights.parent, is_here=True)
    assert job.trainer is not None and job.trainer.init_from == str(weights)


def test_other_sizes_are_refused_with_what_to_set(weights: Path) -> None:
    path = weights / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "vocab_size": 32000}))
    with pytest.raises(UsageError, match=r"--set trainer\.model\.vocab_size=32000"):
        resolve_weights(job_from(str(weights)), Path("/"), is_here=False)


def test_a_config_that_is_no_json_is_named(weights: Path) -> None:
    (weights / "config.json").write_text("{")
    with pytest.raises(UsageError, match=r"trainer\.init_from: .*weights: config\.json cannot be read: Expecting"):
        resolve_weights(job_from(str(weights)), Path("/"), is_here=False)


def test_weights_in_another_format_are_refused(weights: Path) -> None:
    (weights / "model.safetensors").rename(weights / "pytorch_model.bin")
    with pytest.raises(UsageError, match=r"trainer\.init_from: .*weights: it has no \*\.safetensors") as error:
        resolve_weights(job_from(str(weights)), Path("/"), is_here=False)
    assert error.value.hint is not None and "init_from=null" in error.value.hint


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is no safetensors file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 13\n", "is no safetensors file"),
        (safetensors(b"[]", b""), "is no safetensors file"),
        (safetensors(b'{"x": {"data_offsets": 4}}', b"1234"), "is no safetensors file"),
        (safetensors(b'{"x": {"data_offsets": [0, 4]}}', b"123"), "is cut short: it has 42 of 43 bytes"),
    ],
)
def test_missing_or_incomplete_weights_are_refused(weights: Path, content: bytes, problem: str) -> None:
    (weights / "part-2.safetensors").write_bytes(content)
    with pytest.raises(UsageError) as error:
        resolve_weights(job_from(str(weights)), Path("/"), is_here=False)
    assert error.value.message == f"trainer.init_from: {weights}: part-2.safetensors {problem}"


def test_a_directory_that_only_the_nodes_have_is_not_checked(tmp_path: Path) -> None:
    job = job_from("/only/there")
    assert resolve_weights(job, tmp_path, is_here=False) == job
    with pytest.raises(UsageError, match="No such file") as error:
        resolve_weights(job, tmp_path, is_here=True)
    assert error.value.hint is not None and "init_from=null" in error.value.hint


def test_a_file_of_torch_and_one_that_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "fsdp_cpt4000.pth"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("fsdp_cpt4000/data.pkl", b"")
    job = resolve_weights(job_from("fsdp_cpt4000.pth"), tmp_path, is_here=True)
    assert job.trainer is not None and job.trainer.init_from == str(path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UsageError, match=r"fsdp_cpt4000\.pth is no whole file of torch\.save"):
        resolve_weights(job_from("fsdp_cpt4000.pth"), tmp_path, is_here=True)


def test_a_run_is_its_newest_checkpoint(home: Path) -> None:
    record = RunRecord.new("first-k3f9", "first", "local", "local", 1.0, 1)
    registered = create(default_runs_root(), record, lambda run: None)
    with pytest.raises(UsageError, match="run first-k3f9 has no checkpoint on this machine"):
        resolve_weights(job_from("first-k3f9"), home, is_here=True)
    config: dict[str, Any] = encode(job_from(None).trainer)
    for step in (4, 8):
        save(registered, step, config)
    for given in ("first-k3f9", str(registered.root), str(registered.checkpoints / checkpoint_name(8))):
        job = resolve_weights(job_from(given), home, is_here=True)
        assert job.trainer is not None
        assert job.trainer.init_from == str(registered.checkpoints / checkpoint_name(8))
    save(registered, 12, {**config, "model": {**config["model"], "layers": 3}})
    with pytest.raises(UsageError, match=r"--set trainer\.model\.layers=3"):
        resolve_weights(job_from("first-k3f9"), home, is_here=True)


def test_a_job_without_weights_is_unchanged(tmp_path: Path) -> None:
    job = job_from(None)
    assert resolve_weights(job, tmp_path, is_here=True) is job
