"""Names, sizes and configuration of a model in Hugging Face's transformers, whatever its architecture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fsdpctl.contract.formats.hugging_face import Rows
from fsdpctl.contract.trainer.model_config import HUGGING_FACE, ModelConfig


def hf_rows(name: str, model: ModelConfig) -> list[Rows]:
    """Return their tensors in one of the trainer, from its first row to its last. Raises KeyError."""
    return HUGGING_FACE[type(model)].rows_of(name, model)


def hf_config(model: ModelConfig) -> dict[str, object]:
    """Return `config.json` of the same model; without token ids, which only the tokenizer knows."""
    return HUGGING_FACE[type(model)].config_of(model)


def check_fit(config: Mapping[str, Any], model: ModelConfig) -> None:
    """Raise ValueError, with what to set, unless weights of this `config.json` are weights of this model."""
    try:
        theirs = HUGGING_FACE[type(model)].sizes_in(config)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"their config.json has no usable {error}") from None
    wrong = {key: value for key, value in theirs.items() if getattr(model, key) != value}
    if wrong:
        sets = " ".join(f"--set trainer.model.{key}={json.dumps(value)}" for key, value in wrong.items())
        raise ValueError(f"they have other sizes than trainer.model; to take theirs: {sets}")
