"""How Hugging Face's transformers stores the models of one architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rows:
    """One tensor in transformers, as rows of one of the trainer. A fused matrix is several there, stacked."""

    name: str
    begin: int
    end: int | None  # None: to the last


@dataclass(frozen=True)
class HuggingFaceFormat:
    """How transformers stores the models of one architecture."""

    rows_of: Callable[[str, Any], list[Rows]]  # name of a tensor of the trainer, its configuration -> their tensors
    config_of: Callable[[Any], dict[str, object]]  # the trainer's configuration -> config.json
    sizes_in: Callable[[Mapping[str, Any]], dict[str, Any]]  # config.json -> keys of the trainer's configuration
