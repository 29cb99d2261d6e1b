"""Starting from weights of transformers: safetensors, in one file or many, tied or not, read a tensor at a time."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fsdpctl.contract.formats.safetensors import read_header
from fsdpctl.contract.trainer.hugging_face import check_fit, hf_rows
from fsdpctl.contract.trainer.model_config import ModelConfig
from train.errors import ConfigError, unreadable
from train.model.values import fill

_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def load_pretrained(model: nn.Module, config: ModelConfig, directory: Path) -> None:
    """Fill a model's parameters; each rank reads the files and keeps its part.

    `directory` has config.json and *.safetensors. Raises ConfigError where they are not weights of such a model.
    """
    try:
        check_fit(json.loads((directory / "config.json").read_text(encoding="utf-8")), config)
        weights = _Weights(directory)
        for name, parameter in model.named_parameters():
            parts = [weights.read(rows.name) for rows in hf_rows(name, config)]
            full = torch.cat(parts) if len(parts) > 1 else parts[0]
            if full.shape != parameter.shape:
                raise ValueError(f"{name} has the shape {list(full.shape)} there, but {list(parameter.shape)} here")
            fill(parameter, full)
    except OSError as error:
        raise unreadable(f"init_from {directory}: {error.filename}: {error.strerror}", error) from None
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
            begin, entries = read_header(path)
            self._found |= {name: (path, begin, entry) for name, entry in entries.items()}

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
