"""The sizes of a model of transformers, as a Llama of as many parameters: enough for memory and time."""

from __future__ import annotations

import math
import re
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
_TIED = {
    "gpt2",
    "gemma",
    "gemma2",
    "gemma3_text",
    "opt",
    "bloom",
    "falcon",
    "gpt_bigcode",
    "mpt",
    "gpt_neo",
    "starcoder2",
}
"""Types of models whose `tie_word_embeddings` is true where config.json does not say."""
_ENCODERS = {
    "albert",
    "bert",
    "camembert",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "modernbert",
    "mpnet",
    "roberta",
    "xlm-roberta",
}
_ENCODER_DECODERS = {"bart", "longt5", "marian", "mbart", "mt5", "pegasus", "t5", "umt5", "whisper"}
_ONE_KV_HEAD = {"falcon", "gpt_bigcode"}
"""Types of models whose `multi_query` is true where config.json does not say."""
_VISION = ("vision_config", "vision_tower", "mm_vision_tower")
_EXPERTS = re.compile(r"(?:^|_)(?:num|n)_(?!shared)\w*experts$")
"""Keys with a number of experts, as `num_local_experts`, `n_routed_experts`, `moe_num_experts`."""
_INNER = ("intermediate_size", "n_inner", "ffn_dim")
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
    sees = any(config.get(key) for key in _VISION)
    config = config.get("text_config") or config
    if not isinstance(config, Mapping):
        raise ValueError("its text_config is no mapping")
    kind = config.get("model_type") or "unknown"
    if not isinstance(kind, str):
        raise ValueError("its model_type is no text")
    if kind in _ENCODERS:
        raise ValueError(f"it is an encoder ({kind}); only dense decoders can be estimated")
    if kind in _ENCODER_DECODERS or config.get("is_encoder_decoder"):
        raise ValueError(f"it is an encoder and a decoder ({kind}); only dense decoders can be estimated")
    if _has_experts(config):
        raise ValueError(f"it is of a mixture of experts ({kind}); only dense decoders can be estimated")
    found = {key: _number(config, key, names) for key, names in _NAMES.items()}
    d_model, heads = found["d_model"], found["heads"]
    inner = next(filter(None, (_optional(config, key) for key in _INNER)), 4 * d_model)
    gated = kind not in _GATED_NOT
    sizes: dict[str, int | bool] = {
        **found,
        "kv_heads": _kv_heads(config, kind, heads),
        "head_dim": _optional(config, "head_dim") or d_model // heads,
        "ffn": inner if gated else math.ceil(inner * 2 / 3),
        "tie_embeddings": bool(config.get("tie_word_embeddings", kind in _TIED)),
    }
    notes = [] if kind == "llama" else [f"a {kind} model, estimated as a Llama with as many parameters"]
    notes += ["the part for images is not counted: only the language model is estimated"] if sees else []
    return TheirModel(sizes, "; ".join(notes))


def _has_experts(config: Mapping[str, Any]) -> bool:
    """Return whether there are several experts: DBRX has their number one level down, in `ffn_config`."""
    parts = [config, *(value for value in config.values() if isinstance(value, Mapping))]
    return any((_optional(part, key) or 1) > 1 for part in parts for key in part if _EXPERTS.search(key))


def _kv_heads(config: Mapping[str, Any], kind: str, heads: int) -> int:
    """Return the heads of keys and values: falcon's older and newer layers have different keys."""
    if kind in _ONE_KV_HEAD and not config.get("new_decoder_architecture"):
        return 1 if config.get("multi_query", True) else heads
    return _optional(config, "num_key_value_heads") or _optional(config, "num_kv_heads") or heads


def _optional(config: Mapping[str, Any], name: str) -> int | None:
    """Return a number, or None where there is none."""
    found = config.get(name)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool) or found < 0):
        raise ValueError(f"its {name} is no whole number")
    return found


def _number(config: Mapping[str, Any], key: str, names: tuple[str, ...]) -> int:
    for name in names:
        if isinstance(found := config.get(name), int) and not isinstance(found, bool) and found > 0:
            return found
    raise ValueError(f"it has no usable {names[0]}, which is {key} of trainer.model")
