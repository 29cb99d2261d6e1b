"""Names, sizes and configuration of a model in Hugging Face's transformers, whatever its architecture."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fsdpctl.contract.trainer.model_config import ModelConfig


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


def hf_rows(name: str, model: ModelConfig) -> list[Rows]:
    """Return their tensors in one of the trainer, from its first row to its last. Raises KeyError."""
    return model.HUGGING_FACE.rows_of(name, model)


def hf_config(model: ModelConfig) -> dict[str, object]:
    """Return `config.json` of the same model; without token ids, which only the tokenizer knows."""
    return model.HUGGING_FACE.config_of(model)


def check_fit(config: Mapping[str, Any], model: ModelConfig) -> None:
    """Raise ValueError, with what to set, unless weights of this `config.json` are weights of this model."""
    try:
        theirs = model.HUGGING_FACE.sizes_in(config)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"their config.json has no usable {error}") from None
    wrong = {key: value for key, value in theirs.items() if getattr(model, key) != value}
    if wrong:
        sets = " ".join(f"--set trainer.model.{key}={json.dumps(value)}" for key, value in wrong.items())
        raise ValueError(f"they have other sizes than trainer.model; to take theirs: {sets}")
