"""Export a checkpoint's model for other programs: one PyTorch file, or a directory for `transformers`."""

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
from fsdpctl.contract.trainer.hugging_face import hf_config, hf_rows
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.errors import FsdpctlError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

_OVERHEAD_BYTES = 4096  # upper bound per tensor for its name, offset and alignment in a torch file


def export_torch(stored: Stored, out: Path) -> None:
    """Write the model's state dict as `torch.save` does. Load it with `torch.load(path, weights_only=True)`."""
    import torch

    reader = ShardReader(stored.path)
    with _temporary(out) as temporary:
        # The file is created without data first, then filled through a memory map, one tensor at a time.
        _allocate(temporary, sum(4 * math.prod(shape) + _OVERHEAD_BYTES for shape in reader.shapes.values()))
        with torch.serialization.skip_data():
            torch.save({name: torch.empty(shape) for name, shape in reader.shapes.items()}, temporary)
        _allocate(temporary, temporary.stat().st_size)
        with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
            state = torch.load(temporary, mmap=True, weights_only=True)
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
    with _temporary(out) as temporary:
        temporary.mkdir(mode=0o700)
        write_safetensors(temporary / "model.safetensors", shapes, _cut(reader, sources))
        (temporary / "config.json").write_text(json.dumps(hf_config(model), indent=2) + "\n")


def _allocate(path: Path, size: int) -> None:
    """Allocate all disk space of a file, or raise OSError.

    On a full disk, torch reports no reason, and a write through a memory map ends the process with a bus error.
    """
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
        raise FsdpctlError(f"{stored.path}: the model's configuration cannot be read: {error}") from None


def _cut(reader: ShardReader, sources: Mapping[str, tuple[str, Any]]) -> Callable[[str], Tensor]:
    """Return a function that reads rows of tensors; a fused tensor is read once for all that is cut from it."""
    held: dict[str, Tensor] = {}

    def cut(wanted: str) -> Tensor:
        name, rows = sources[wanted]
        if name not in held:
            held.clear()
            held[name] = reader.read(name)
        return held[name][rows.begin : rows.end]

    return cut


@contextlib.contextmanager
def _temporary(out: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `out` at the end. Raise UsageError if `out` exists."""
    if out.exists():
        raise UsageError(f"{out} exists already", hint="choose another name with --out")
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.rename(out)
    except OSError as error:
        raise FsdpctlError(f"{out}: {error.strerror}") from None
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
