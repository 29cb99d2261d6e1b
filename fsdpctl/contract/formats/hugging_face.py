"""Models by the names that Hugging Face's transformers has for them, whatever their architecture."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fsdpctl.contract.trainer.model_config import ModelConfig


@dataclass(frozen=True)
class Rows:
    """A tensor of transformers, as rows of one of ours. A fused matrix is several of theirs, one below the other."""

    name: str
    begin: int
    end: int | None  # None: to the last


@dataclass(frozen=True)
class HuggingFaceFormat:
    """How transformers stores the models of one architecture."""

    rows_of: Callable[[str, Any], list[Rows]]  # name of one of our tensors, our configuration -> their tensors
    config_of: Callable[[Any], dict[str, object]]  # our configuration -> config.json
    sizes_in: Callable[[Mapping[str, Any]], dict[str, Any]]  # config.json -> the keys of ours that it decides


def hf_rows(name: str, model: ModelConfig) -> list[Rows]:
    """Return their tensors in one of ours, from its first row to its last. Raises KeyError for an unknown name."""
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
