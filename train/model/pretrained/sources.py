"""Named tensors of a file or a directory, read one at a time and never by running code from it."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.tensor import DTensor

from fsdpctl.contract.formats.dcp_table import FOREIGN, read_table
from fsdpctl.contract.formats.safetensors import read_header
from fsdpctl.contract.formats.weights import WeightsForm, check_torch_file, find_form

Shapes = Mapping[str, tuple[int, ...]]

_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
"""What DDP, torch.compile, FSDP1 and activation checkpointing add to names."""
_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Source(Protocol):
    """Tensors by name. Reading raises OSError, and ValueError for what is damaged or of another kind."""

    @property
    def shapes(self) -> Shapes: ...

    def read(self, name: str) -> Tensor:
        """Return one tensor, whole, on the CPU."""


def open_source(path: Path) -> Source:
    """Open weights in any form. Raises OSError and ValueError."""
    form = find_form(path)
    if form is WeightsForm.FULL:
        return FullSource(path)
    if form is WeightsForm.SHARDED:
        return ShardedSource(path)
    return SafetensorsSource(sorted(path.glob("*.safetensors")) if path.is_dir() else [path])


def without_wrappers(name: str) -> str:
    """Return a parameter's name in the module that was wrapped."""
    return _WRAPPERS.sub("", name)


class SafetensorsSource:
    """One safetensors file or many."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._found: dict[str, tuple[Path, int, dict[str, Any]]] = {}
        for path in paths:
            begin, entries = read_header(path)
            self._found |= {name: (path, begin, entry) for name, entry in entries.items()}

    @cached_property
    def shapes(self) -> Shapes:
        return {name: self._entry(name)[1] for name in self._found}

    def _entry(self, name: str) -> tuple[torch.dtype, tuple[int, ...], int, int]:
        path, _, entry = self._found[name]
        try:
            dtype, shape, (first, last) = _DTYPES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
            num_bytes = math.prod(shape) * dtype.itemsize
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{path.name}: {name} is {entry}") from None
        if last - first != num_bytes:
            raise ValueError(f"{path.name}: {name} has {last - first} bytes for {list(shape)} of {entry['dtype']}")
        return dtype, shape, first, last

    def read(self, name: str) -> Tensor:
        dtype, shape, first, last = self._entry(name)
        path, begin, _ = self._found[name]
        data = bytearray(last - first)
        with path.open("rb") as file:
            file.seek(begin + first)
            if file.readinto(data) != len(data):
                raise ValueError(f"{path.name} is cut short")
        return torch.frombuffer(data, dtype=dtype).view(shape)


class FullSource:
    """One file of torch.save: nested dictionaries of tensors, mapped into memory."""

    def __init__(self, path: Path) -> None:
        check_torch_file(path)
        try:
            state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
            self._tensors = dict(_flatten(state))
        except pickle.UnpicklingError:
            raise ValueError("it has more than tensors and plain values; nothing else is unpickled") from None
        except (RuntimeError, EOFError) as error:
            raise ValueError(f"it cannot be read: {str(error).partition(chr(10))[0]}") from None

    @property
    def shapes(self) -> Shapes:
        return {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def read(self, name: str) -> Tensor:
        return self._tensors[name]


def _flatten(state: object, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of nested dictionaries, named as torch's distributed checkpoint names them."""
    if isinstance(state, DTensor):
        raise ValueError(f"{path} is the part of one rank; a checkpoint of all is a directory of dcp.save")
    if isinstance(state, Tensor):
        yield without_wrappers(path), state.detach()
    elif isinstance(state, Mapping):
        for key, value in state.items():
            yield from _flatten(value, f"{path}.{key}" if path else str(key))


class ShardedSource:
    """A directory of torch's distributed checkpoint, of this trainer or of any other program."""

    def __init__(self, directory: Path) -> None:
        self._reader = _Reader(directory)
        try:
            entries = self._reader.table.state_dict_metadata
        except (pickle.UnpicklingError, AttributeError, ImportError, EOFError) as error:
            raise ValueError(f"its table of contents cannot be read: {error}") from None
        self._entries = {
            without_wrappers(name): (name, entry)
            for name, entry in entries.items()
            if isinstance(entry, TensorStorageMetadata)
        }

    @property
    def shapes(self) -> Shapes:
        return {name: tuple(entry.size) for name, (_, entry) in self._entries.items()}

    def read(self, name: str) -> Tensor:
        stored_as, entry = self._entries[name]
        tensor = torch.empty(entry.size, dtype=entry.properties.dtype)
        try:
            load({stored_as: tensor}, storage_reader=self._reader, no_dist=True)
        except Exception as error:  # torch wraps it, whatever it is
            cause: BaseException = error
            while cause.__cause__ or cause.__context__:
                cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
            raise ValueError(f"{name} cannot be read: {str(cause).strip().partition(chr(10))[0]}") from None
        return tensor


class _Reader(FileSystemReader):
    @cached_property
    def table(self) -> Metadata:
        table: Metadata = read_table(Path(self.path), FOREIGN)
        table.storage_meta = table.storage_meta or StorageMeta()
        return table

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        return self.table
