"""Tensors and sizes of the trainer's Llama by the names of transformers' Llama, both ways."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fsdpctl.contract.formats.hugging_face import HuggingFaceFormat, Rows
from fsdpctl.contract.trainer.llama.config import LlamaConfig

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


def llama_rows(name: str, model: LlamaConfig) -> list[Rows]:
    """Return their tensors in one of the trainer, from its first row to its last. Raises KeyError."""
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


def llama_config(model: LlamaConfig) -> dict[str, object]:
    """Return `config.json` of the same model; without token ids, which only the tokenizer knows."""
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


def llama_sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of LlamaConfig that a `config.json` decides.

    Raises ValueError for what the trainer's Llama cannot be, and KeyError for a missing key.
    """
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


HF_LLAMA = HuggingFaceFormat(llama_rows, llama_config, llama_sizes)
