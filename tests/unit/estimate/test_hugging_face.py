from __future__ import annotations

from typing import Any

import pytest

from fsdpctl.contract.trainer.llama.config import LlamaConfig
from fsdpctl.estimate.hugging_face import read_sizes

LLAMA3 = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "rope_scaling": {"rope_type": "llama3"},
}
GPT2 = {"model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024}
QWEN = {**LLAMA3, "model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584, "num_hidden_layers": 28}
QWEN |= {"num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944}


def parameters(config: dict[str, Any]) -> int:
    return LlamaConfig(**read_sizes(config).sizes, seq_len=2048).num_parameters  # type: ignore[arg-type]


def test_a_llama_has_its_own_parameters() -> None:
    assert parameters(LLAMA3) == 8_030_261_248
    assert read_sizes(LLAMA3).note == ""


@pytest.mark.parametrize(
    ("config", "published"), [(GPT2, 124_439_808), (QWEN, 7_615_616_512)], ids=["GPT-2", "Qwen2.5-7B"]
)
def test_another_model_has_nearly_as_many(config: dict[str, Any], published: int) -> None:
    assert parameters(config) == pytest.approx(published, rel=0.01)
    assert str(config["model_type"]) in read_sizes(config).note


def test_falcon_7b_has_one_head_of_keys_and_values() -> None:
    falcon = {"model_type": "falcon", "vocab_size": 65024, "hidden_size": 4544, "num_hidden_layers": 32}
    falcon |= {"num_attention_heads": 71, "multi_query": True, "new_decoder_architecture": False}
    assert read_sizes(falcon).sizes["kv_heads"] == 1
    assert parameters(falcon) == pytest.approx(6_921_720_704, rel=0.01)
    newer = {**falcon, "hidden_size": 8192, "num_attention_heads": 128, "num_kv_heads": 8}
    assert read_sizes({**newer, "new_decoder_architecture": True}).sizes["kv_heads"] == 8


def test_starcoder2_ties_its_embeddings_unless_it_is_written() -> None:
    assert read_sizes({**LLAMA3, "model_type": "starcoder2"}).sizes["tie_embeddings"] is True
    assert (
        read_sizes({**LLAMA3, "model_type": "starcoder2", "tie_word_embeddings": False}).sizes["tie_embeddings"]
        is False
    )


def test_what_sees_images_is_noted_as_not_counted() -> None:
    llava = {"model_type": "llava", "vision_config": {"hidden_size": 1024}, "text_config": LLAMA3}
    assert "images is not counted" in read_sizes(llava).note


def test_the_text_part_of_a_model_of_images_counts() -> None:
    assert read_sizes({"model_type": "mllama", "text_config": LLAMA3}).sizes["d_model"] == 4096


def test_one_expert_is_a_dense_model() -> None:
    one = {"num_experts": 1, "num_experts_per_tok": 2, "n_shared_experts": 2, "ffn_config": {"moe_num_experts": 1}}
    assert parameters({**LLAMA3, **one}) == parameters(LLAMA3)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({**LLAMA3, "model_type": "mixtral", "num_local_experts": 8}, "mixture of experts"),
        ({**LLAMA3, "model_type": "deepseek_v3", "n_routed_experts": 256}, "mixture of experts"),
        ({**LLAMA3, "model_type": "ernie4_5_moe", "moe_num_experts": 64}, "mixture of experts"),
        ({**LLAMA3, "model_type": "dbrx", "ffn_config": {"moe_num_experts": 16}}, "mixture of experts"),
        ({**LLAMA3, "model_type": "bert"}, "is an encoder"),
        ({**LLAMA3, "model_type": "t5"}, "encoder and a decoder"),
        ({**LLAMA3, "model_type": "new", "is_encoder_decoder": True}, "encoder and a decoder"),
        ({**LLAMA3, "model_type": ["llama"]}, "its model_type is no text"),
        ({**LLAMA3, "num_experts": [8]}, "its num_experts is no whole number"),
        ({**LLAMA3, "intermediate_size": "14336"}, "its intermediate_size is no whole number"),
        ({**LLAMA3, "head_dim": 128.0}, "its head_dim is no whole number"),
        ({**LLAMA3, "num_key_value_heads": {}}, "its num_key_value_heads is no whole number"),
        ({"text_config": [1]}, "its text_config is no mapping"),
        ({"model_type": "llama"}, "vocab_size"),
        ({**LLAMA3, "hidden_size": "4096"}, "hidden_size"),
        ({**LLAMA3, "num_hidden_layers": -1}, "num_hidden_layers"),
    ],
)
def test_what_cannot_be_estimated_is_refused(config: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_sizes(config)
