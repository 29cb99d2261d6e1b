"""Start from given weights: of transformers, of another run, or of any file or sharded directory of torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from fsdpctl.contract.codec import CodecError, decode
from fsdpctl.contract.formats.manifest import (
    InvalidCheckpointError,
    UnreadableCheckpointError,
    read_manifest,
    verify_sizes,
)
from fsdpctl.contract.formats.weights import HF_CONFIG, WANTED, WeightsForm, find_form
from fsdpctl.contract.paths.checkpoint import CHECKPOINT_MANIFEST
from fsdpctl.contract.trainer.hugging_face import check_fit, hf_config
from fsdpctl.contract.trainer.model_config import ModelConfig
from train.errors import ConfigError, unreadable
from train.model.pretrained.match import match
from train.model.pretrained.sources import Source, open_source
from train.model.values import fill


def load_pretrained(
    tensors: Mapping[str, Tensor], config: ModelConfig, path: Path, sign: Callable[[], None] = lambda: None
) -> None:
    """Fill the tensors of a run, `model.NAME` and `optimizer.NAME.KEY`; each rank reads and keeps its part.

    `sign` is called after each tensor.
    Raises ConfigError where the files are not those of such a model, and TrainError where the disk may be at fault.
    """
    try:
        check_sizes(path, config)
        source = open_source(path)
        found = match(source.shapes, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, config)
        for one, other in found.tied:
            if not torch.equal(source.read(one), source.read(other)):
                raise ValueError(f"{one} and {other} differ, but trainer.model.tie_embeddings is true")
        for name, tensor in tensors.items():
            fill(tensor, _stack(source, [part.name for part in found.parts[name]]))
            sign()
    except UnreadableCheckpointError as error:
        raise unreadable(f"init_from {path}: {error}", error.error) from None
    except OSError as error:
        raise unreadable(f"init_from {path}: {error.filename}: {error.strerror}; {WANTED}", error) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"init_from {path}: {error}") from None


def check_sizes(path: Path, config: ModelConfig) -> None:
    """Compare the sizes that are stored beside the weights, if any. Raise ValueError where they differ, and
    UnreadableCheckpointError.
    """
    form = find_form(path)
    if form is WeightsForm.HUGGING_FACE:
        check_fit(json.loads((path / HF_CONFIG).read_text(encoding="utf-8")), config)
    elif form is WeightsForm.SHARDED and (path / CHECKPOINT_MANIFEST).exists():
        try:
            manifest = read_manifest(path)
            verify_sizes(path, manifest.files.items())
            saved = decode(ModelConfig, manifest.config["model"])
        except UnreadableCheckpointError:
            raise
        except (InvalidCheckpointError, CodecError, KeyError) as error:
            raise ValueError(str(error)) from None
        check_fit(hf_config(saved), config)


def _stack(source: Source, names: list[str]) -> Tensor:
    parts = [source.read(name) for name in names]
    for name, part in zip(names, parts, strict=True):
        if not part.dtype.is_floating_point:
            raise ValueError(f"{name} is of {part.dtype}, no floating-point numbers")
    return torch.cat(parts) if len(parts) > 1 and parts[0].ndim else parts[0]
