"""A checkpoint's model for other programs: one file of PyTorch's, or a directory that `transformers` loads."""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsdpctl.checkpoints.listing import Stored
from fsdpctl.checkpoints.safetensors_writer import write_safetensors
from fsdpctl.checkpoints.tensors import ShardReader
from fsdpctl.contract.codec import CodecError, decode
from fsdpctl.contract.formats.hugging_face import hf_config, hf_rows
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.errors import FsdpctlError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

_OF_ONE_TENSOR = 4096  # more than its name, place and alignment take in a file of torch's


def export_torch(stored: Stored, out: Path) -> None:
    """Write the model's state dict as `torch.save` does; loads with `torch.load(path, weights_only=True)`."""
    import torch

    reader = ShardReader(stored.path)
    with _aside(out) as aside:
        # The file is laid out first, with nothing in it, and then filled through a map of it.
        _take_room(aside, sum(4 * math.prod(shape) + _OF_ONE_TENSOR for shape in reader.shapes.values()))
        with torch.serialization.skip_data():
            torch.save({name: torch.empty(shape) for name, shape in reader.shapes.items()}, aside)
        _take_room(aside, aside.stat().st_size)
        with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
            state = torch.load(aside, mmap=True, weights_only=True)
        for name, tensor in state.items():
            tensor.copy_(reader.read(name))
        del state


def export_hugging_face(stored: Stored, out: Path) -> None:
    """Write `model.safetensors` and `config.json` with the names of Hugging Face's Llama."""
    model = model_of(stored)
    reader = ShardReader(stored.path)
    shapes, sources = {}, {}
    for name, shape in sorted(reader.shapes.items()):
        for rows in hf_rows(name, model):
            height = (shape[0] if rows.end is None else rows.end) - rows.begin
            shapes[rows.name] = (height, *shape[1:])
            sources[rows.name] = (name, rows)
    with _aside(out) as aside:
        aside.mkdir(mode=0o700)
        write_safetensors(aside / "model.safetensors", shapes, _cut(reader, sources))
        (aside / "config.json").write_text(json.dumps(hf_config(model), indent=2) + "\n")


def _take_room(path: Path, size: int) -> None:
    """Have the disk give a file all of its room. Torch tells nobody why it cannot write one; and a map of a file for
    which there is no room ends the process, by a bus error."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)


def model_of(stored: Stored) -> ModelConfig:
    assert stored.manifest is not None
    try:
        return decode(ModelConfig, stored.manifest.config["model"])
    except (CodecError, KeyError) as error:
        raise FsdpctlError(f"{stored.path}: its model's configuration cannot be read: {error}") from None


def _cut(reader: ShardReader, sources: Mapping[str, tuple[str, Any]]) -> Callable[[str], Tensor]:
    """Rows of tensors; a fused one is read once for all that is cut from it."""
    held: dict[str, Tensor] = {}

    def cut(wanted: str) -> Tensor:
        name, rows = sources[wanted]
        if name not in held:
            held.clear()
            held[name] = reader.read(name)
        return held[name][rows.begin : rows.end]

    return cut


@contextlib.contextmanager
def _aside(out: Path) -> Iterator[Path]:
    """Write aside and rename, so that nobody takes a half written one; what exists is not written over."""
    if out.exists():
        raise UsageError(f"{out} exists already", hint="choose another name with --out")
    aside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        yield aside
        aside.rename(out)
    except OSError as error:
        raise FsdpctlError(f"{out}: {error.strerror}") from None
    finally:
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)
