"""Read whole tensors from the shards of a checkpoint, one at a time."""

from __future__ import annotations

import io
import math
import pickle
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsdpctl.contract.formats.dcp_table import read_table
from fsdpctl.errors import FsdpctlError

if TYPE_CHECKING:
    from torch import Tensor

MODEL = "model."
"""Prefix of the names of the model's tensors; the optimizer's tensors have another one."""


class ShardReader:
    """Reads the model's tensors of one checkpoint by their names in the model."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            table = read_table(directory)
        except (OSError, pickle.UnpicklingError, AttributeError, ImportError, EOFError) as error:
            raise FsdpctlError(f"{directory}: {error}") from None
        self._entries = {
            name.removeprefix(MODEL): entry
            for name, entry in table.state_dict_metadata.items()
            if name.startswith(MODEL)
        }
        self._parts: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
        for index, info in table.storage_data.items():
            self._parts[index.fqn.removeprefix(MODEL)].append((index.offset, info))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(entry.size) for name, entry in self._entries.items()}

    def read(self, name: str) -> Tensor:
        """Assemble one tensor from its parts. Raise FsdpctlError if a part is missing or unreadable."""
        import torch

        entry = self._entries[name]
        whole = torch.empty(entry.size, dtype=entry.properties.dtype)
        filled = 0
        for offset, info in self._parts[name]:
            part = self._read_part(info)
            where = tuple(slice(start, start + length) for start, length in zip(offset or (), part.shape, strict=False))
            whole[where] = part
            filled += part.numel()
        if filled != math.prod(entry.size):
            raise FsdpctlError(f"{self.directory}: {name} has {filled} of {math.prod(entry.size)} values")
        return whole

    def _read_part(self, info: Any) -> Tensor:
        import torch

        path = self.directory / Path(info.relative_path).name
        try:
            with path.open("rb") as file:
                file.seek(info.offset)
                part = torch.load(io.BytesIO(file.read(info.length)), weights_only=True)
        except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
            raise FsdpctlError(f"{path}: {str(error).partition(chr(10))[0]}") from None
        if not isinstance(part, torch.Tensor):
            raise FsdpctlError(f"{path}: expected a tensor, got {type(part).__name__}")
        return part
