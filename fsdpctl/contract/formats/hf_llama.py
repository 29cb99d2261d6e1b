"""The bundled decoder's tensors by the names that Hugging Face's Llama has for them, both ways."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fsdpctl.contract.trainer.model_config import ModelConfig

_WHOLE = {
    "embed.weight": "model.embed_tokens.weight",
    "norm.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
_IN_BLOCK = {
    "attention_norm.weight": "input_layernorm.weight",
    "attention.out.weight": "self_attn.o_proj.weight",
    "mlp_norm.weight": "post_attention_layernorm.weight",
    "mlp.down.weight": "mlp.down_proj.weight",
}
_BLOCK = re.compile(r"blocks\.(\d+)\.(.+)")


@dataclass(frozen=True)
class Rows:
    """A tensor of Hugging Face's, as rows of one of ours. Fused matrices are several of theirs, one below the other."""

    name: str
    begin: int
    end: int | None  # None: to the last


def llama_names(name: str, model: ModelConfig) -> list[Rows]:
    """What one of our tensors is called there, from its first row to its last. KeyError for a name that we lack."""
    if name in _WHOLE:
        return [Rows(_WHOLE[name], 0, None)]
    if not (found := _BLOCK.fullmatch(name)):
        raise KeyError(name)
    layer, part = f"model.layers.{found[1]}.", found[2]
    if part == "attention.qkv.weight":
        heights = {"q": model.heads, "k": model.kv_heads, "v": model.kv_heads}
        fused = {f"self_attn.{key}_proj.weight": count * model.head_dim for key, count in heights.items()}
    elif part == "mlp.gate_up.weight":
        fused = {"mlp.gate_proj.weight": model.ffn, "mlp.up_proj.weight": model.ffn}
    else:
        return [Rows(layer + _IN_BLOCK[part], 0, None)]
    return list(_stack(layer, fused))


def _stack(layer: str, heights: dict[str, int]) -> Iterator[Rows]:
    begin = 0
    for name, height in heights.items():
        yield Rows(layer + name, begin, begin + height)
        begin += height


def llama_config(model: ModelConfig) -> dict[str, object]:
    """`config.json` of the same model; without token ids, which only the tokenizer knows."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "vocab_size": model.vocab_size,
        "hidden_size": model.d_model,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "intermediate_size": model.ffn,
        "max_position_embeddings": model.seq_len,
        "tie_word_embeddings": model.tie_embeddings,
        "rms_norm_eps": model.norm_eps,
        "rope_theta": model.rope_theta,
        "attention_bias": False,
        "mlp_bias": False,
        "initializer_range": model.init_std,
        "bos_token_id": None,
        "eos_token_id": None,
        "dtype": "float32",
    }


def sizes_there(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of our ModelConfig that a `config.json` decides. ValueError for what the bundled decoder cannot be."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if config.get("model_type") != "llama":
        raise ValueError(f"they are of a model of type {config.get('model_type')!r}, not 'llama'")
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        raise ValueError(f"their rotary positions are scaled ({rope})")
    if config.get("attention_bias") or config.get("mlp_bias") or config.get("hidden_act", "silu") != "silu":
        raise ValueError("they have biases, or another activation than silu")
    heads = config["num_attention_heads"]
    return {
        "vocab_size": config["vocab_size"],
        "d_model": config["hidden_size"],
        "layers": config["num_hidden_layers"],
        "heads": heads,
        "kv_heads": config.get("num_key_value_heads") or heads,
        "head_dim": config.get("head_dim") or config["hidden_size"] // heads,
        "ffn": config["intermediate_size"],
        "tie_embeddings": config.get("tie_word_embeddings", False),
        "norm_eps": config.get("rms_norm_eps", 1e-6),
        "rope_theta": rope.get("rope_theta") or config.get("rope_theta") or 10_000.0,
    }


def check_fit(config: Mapping[str, Any], model: ModelConfig) -> None:
    """Raise ValueError, saying what to set, unless weights of this `config.json` are weights of this model."""
    try:
        there = sizes_there(config)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"their config.json lacks or garbles {error}") from None
    wrong = {key: value for key, value in there.items() if getattr(model, key) != value}
    if wrong:
        sets = " ".join(f"--set trainer.model.{key}={json.dumps(value)}" for key, value in wrong.items())
        raise ValueError(f"they have other sizes than trainer.model; to take theirs: {sets}")
