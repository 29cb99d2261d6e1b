"""Check `trainer.init_from` of a job at submit: weights that do not fit are found now."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.formats.safetensors import read_header
from fsdpctl.contract.trainer.hugging_face import check_fit
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.errors import UsageError
from fsdpctl.specs.job import JobSpec


def resolve_weights(job: JobSpec, submit_dir: Path, *, is_here: bool) -> JobSpec:
    """Make the directory absolute, and check it if it is visible here. `is_here`: ranks run on this machine."""
    trainer = job.trainer
    if trainer is None or trainer.init_from is None:
        return job
    directory = submit_dir / os.path.expanduser(trainer.init_from)  # noqa: PTH111 - Path's raises without a home
    if is_here or directory.is_dir():
        _check(directory, trainer.model)
    return job.model_copy(update={"trainer": replace(trainer, init_from=str(directory))})


def _check(directory: Path, model: ModelConfig) -> None:
    path = directory / "config.json"
    hint = "wanted: a directory with config.json and *.safetensors; after a checkpoint: --set trainer.init_from=null"
    try:
        config = json.loads(read_bytes(path).decode())
    except OSError as error:
        raise UsageError(f"trainer.init_from: {path}: {error.strerror}", hint=hint) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"trainer.init_from: {path} cannot be read: {error}") from None
    try:
        check_fit(config, model)
    except ValueError as error:
        raise UsageError(f"trainer.init_from: the weights in {directory} do not fit: {error}") from None
    files = sorted(directory.glob("*.safetensors"))
    if not files:
        raise UsageError(f"trainer.init_from: {directory} has no *.safetensors with the weights", hint=hint)
    for file in files:
        try:
            read_header(file)
        except OSError as error:
            raise UsageError(f"trainer.init_from: {file}: {error.strerror}") from None
        except ValueError as error:
            raise UsageError(f"trainer.init_from: {directory}: {error}") from None
