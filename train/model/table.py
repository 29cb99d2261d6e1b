"""The model architectures: one row each, from the class of its configuration to that of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fsdpctl.contract.trainer.llama.config import LlamaConfig
from fsdpctl.contract.trainer.model_config import ModelConfig
from train.model.language_model import LanguageModel
from train.model.llama.decoder import Llama

ARCHITECTURES: dict[type[ModelConfig], Callable[[Any], LanguageModel]] = {
    LlamaConfig: Llama,
}


def build(config: ModelConfig) -> LanguageModel:
    """Return the model of a configuration, without values where the default device is meta."""
    return ARCHITECTURES[type(config)](config)
