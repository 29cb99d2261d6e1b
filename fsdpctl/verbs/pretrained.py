"""Resolve `trainer.init_from` of a job at submit, and check it: weights that do not fit are found now."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from fsdpctl.contract.codec import CodecError, decode
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.formats.manifest import InvalidCheckpointError, committed, read_manifest
from fsdpctl.contract.formats.safetensors import read_header
from fsdpctl.contract.formats.weights import HF_CONFIG, WANTED, WeightsForm, check_torch_file, find_form
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.paths.checkpoint import CHECKPOINT_MANIFEST
from fsdpctl.contract.trainer.hugging_face import check_fit, hf_config
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.errors import FsdpctlError, UsageError
from fsdpctl.specs.job import JobSpec

_HINT = f"{WANTED}, or a run; after a checkpoint: --set trainer.init_from=null"


def resolve_weights(job: JobSpec, submit_dir: Path, *, is_here: bool) -> JobSpec:
    """Make the path absolute, of a run that of its newest checkpoint; check it if it is visible here.

    `is_here`: ranks run on this machine.
    """
    trainer = job.trainer
    if trainer is None or trainer.init_from is None:
        return job
    path = _of_run(trainer.init_from, submit_dir / os.path.expanduser(trainer.init_from))  # noqa: PTH111 - Path's raises without a home
    if is_here or path.exists():
        _check(path, trainer.model)
    return job.model_copy(update={"trainer": replace(trainer, init_from=str(path))})


def _of_run(given: str, path: Path) -> Path:
    """Return the newest checkpoint of a run, given by its directory or as in other commands; else the path."""
    run = RunPaths(path)
    if not path.exists() and "/" not in given:
        from fsdpctl.runs.find import find_run  # few jobs start from a run

        try:
            run = find_run(given)
        except FsdpctlError:
            return path
    if not run.record.exists():
        return path
    if not (names := committed(run.checkpoints)):
        raise UsageError(f"trainer.init_from: run {run.root.name} has no checkpoint on this machine", hint=_HINT)
    return run.checkpoints / names[-1]


def _check(path: Path, model: ModelConfig) -> None:
    try:
        form = find_form(path)
        config = _read_config(path, form)
        _check_files(path, form)
    except OSError as error:
        raise UsageError(f"trainer.init_from: {error.filename}: {error.strerror}", hint=_HINT) from None
    except ValueError as error:
        raise UsageError(f"trainer.init_from: {path}: {error}", hint=_HINT) from None
    try:
        if config is not None:
            check_fit(config, model)
    except ValueError as error:
        raise UsageError(f"trainer.init_from: the weights in {path} do not fit: {error}") from None


def _read_config(path: Path, form: WeightsForm) -> dict[str, object] | None:
    """Return the `config.json` of the weights, or what it would be; None where no sizes are stored beside them."""
    if form is WeightsForm.HUGGING_FACE:
        try:
            found: dict[str, object] = json.loads(read_bytes(path / HF_CONFIG).decode())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{HF_CONFIG} cannot be read: {error}") from None
        return found
    if form is WeightsForm.SHARDED and (path / CHECKPOINT_MANIFEST).exists():
        try:
            return hf_config(decode(ModelConfig, read_manifest(path).config["model"]))
        except (InvalidCheckpointError, CodecError, KeyError) as error:
            raise ValueError(str(error)) from None
    return None


def _check_files(path: Path, form: WeightsForm) -> None:
    """Raise OSError for a file that cannot be read, and ValueError for one that is of another kind or cut short."""
    if form is WeightsForm.SHARDED:
        return  # its table names classes of torch, which need not be here
    if form is WeightsForm.FULL:
        check_torch_file(path)
    else:
        for file in sorted(path.glob("*.safetensors")) if path.is_dir() else [path]:
            read_header(file)
