"""Starting from a Llama of Hugging Face's: safetensors, in one file or many, tied or not, read a tensor at a time."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fsdpctl.contract.llama import check_fit, llama_names

from .errors import ConfigError
from .model import Decoder
from .parallelize import fill

_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_MAX_HEADER = 100_000_000  # as the safetensors library has it


def load_pretrained(model: Decoder, directory: Path) -> None:
    """Fill a decoder's parameters; each rank reads the files and keeps its part."""
    try:
        check_fit(json.loads((directory / "config.json").read_text(encoding="utf-8")), model.config)
        weights = _Weights(directory)
        for name, parameter in model.named_parameters():
            parts = [weights.read(rows.name) for rows in llama_names(name, model.config)]
            full = torch.cat(parts) if len(parts) > 1 else parts[0]
            if full.shape != parameter.shape:
                raise ValueError(f"{name} has the shape {list(full.shape)} there, but {list(parameter.shape)} here")
            fill(parameter, full)
    except OSError as error:
        raise ConfigError(f"init_from {directory}: {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"init_from {directory}: {error}") from None


class _Weights:
    """Tensors by name, over all the files of a directory."""

    def __init__(self, directory: Path) -> None:
        self._found: dict[str, tuple[Path, int, dict[str, Any]]] = {}
        files = sorted(directory.glob("*.safetensors"))
        if not files:
            raise ValueError("it has no *.safetensors")
        for path in files:
            begin, header = _read_header(path)
            self._found |= {name: (path, begin, entry) for name, entry in header.items() if name != "__metadata__"}

    def read(self, name: str) -> Tensor:
        if name not in self._found:
            raise ValueError(f"no file has {name}")
        path, begin, entry = self._found[name]
        try:
            dtype, shape, (first, last) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{path.name}: {name} is {entry}") from None
        if last - first != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{path.name}: {name} has {last - first} bytes for {shape} of {entry['dtype']}")
        data = bytearray(last - first)
        with path.open("rb") as file:
            file.seek(begin + first)
            if file.readinto(data) != len(data):
                raise ValueError(f"{path.name} is cut short")
        return torch.frombuffer(data, dtype=dtype).view(shape)


def _read_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Where the data begins, and what it is of."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(_MAX_HEADER, path.stat().st_size):
            raise ValueError(f"{path.name} is no safetensors file")
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise ValueError(f"{path.name} is no safetensors file")
    return 8 + length, header
