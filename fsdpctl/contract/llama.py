"""The bundled decoder's tensors by the names that Hugging Face's Llama has for them, both ways."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fsdpctl.contract.trainer import ModelConfig

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
