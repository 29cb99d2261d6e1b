"""The sizes of a model of transformers, as a Llama of as many parameters: enough for memory and time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_GATED_NOT = {
    "gpt2",
    "gpt_neo",
    "gpt_neox",
    "gptj",
    "opt",
    "bloom",
    "phi",
    "falcon",
    "starcoder2",
    "gpt_bigcode",
    "mpt",
}
"""Types of models whose feed-forward layer has two matrices; all others have the three of a SwiGLU."""
_TIED = {"gpt2", "gemma", "gemma2", "gemma3_text", "opt", "bloom", "falcon", "gpt_bigcode", "mpt", "gpt_neo"}
"""Types of models whose `tie_word_embeddings` is true where config.json does not say."""
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_NAMES = {
    "vocab_size": ("vocab_size",),
    "d_model": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
}


@dataclass(frozen=True)
class TheirModel:
    """Keys of `trainer.model`, and in what the model differs from a Llama."""

    sizes: Mapping[str, int | bool]
    note: str


def read_sizes(config: Mapping[str, Any]) -> TheirModel:
    """Return the sizes in a `config.json`. Raises ValueError for a model that is no dense decoder."""
    config = config.get("text_config") or config
    kind = config.get("model_type") or "unknown"
    if any((config.get(key) or 1) > 1 for key in _EXPERTS):
        raise ValueError(f"it is of a mixture of experts ({kind}); only dense decoders can be estimated")
    found = {key: _number(config, key, names) for key, names in _NAMES.items()}
    d_model, heads = found["d_model"], found["heads"]
    inner = config.get("intermediate_size") or config.get("n_inner") or config.get("ffn_dim") or 4 * d_model
    gated = kind not in _GATED_NOT
    sizes: dict[str, int | bool] = {
        **found,
        "kv_heads": config.get("num_key_value_heads") or heads,
        "head_dim": config.get("head_dim") or d_model // heads,
        "ffn": inner if gated else math.ceil(inner * 2 / 3),
        "tie_embeddings": bool(config.get("tie_word_embeddings", kind in _TIED)),
    }
    note = "" if kind == "llama" else f"a {kind} model, estimated as a Llama with as many parameters"
    return TheirModel(sizes, note)


def _number(config: Mapping[str, Any], key: str, names: tuple[str, ...]) -> int:
    for name in names:
        if isinstance(found := config.get(name), int) and not isinstance(found, bool) and found > 0:
            return found
    raise ValueError(f"it has no usable {names[0]}, which is {key} of trainer.model")
