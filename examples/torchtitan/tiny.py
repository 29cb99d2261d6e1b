"""A Llama that trains on a laptop, on bytes of a made-up text: needs no download. By torchtitan's `custom_import`."""

import random
from collections.abc import Sequence
from dataclasses import replace

from datasets import Dataset
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.hf_datasets import DatasetConfig
from torchtitan.hf_datasets.text_datasets import DATASETS
from torchtitan.models.llama3 import TransformerModelArgs
from torchtitan.protocols.train_spec import get_train_spec, register_train_spec

END = 256


class ByteTokenizer(BaseTokenizer):
    def __init__(self) -> None:
        super().__init__()
        self.eos_id = END

    def encode(self, text: str, add_bos: bool = True, add_eos: bool = True) -> list[int]:
        return [*text.encode(), *([END] if add_eos else [])]

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(token for token in tokens if token != END).decode(errors="replace")

    def get_vocab_size(self) -> int:
        return END + 1


def make_text(path: str) -> Dataset:
    draw = random.Random(0)
    words = ["shard", "replica", "mesh", "rank", "node", "step"]
    return Dataset.from_list([{"text": " ".join(draw.choices(words, k=40))} for _ in range(2000)])


DATASETS["tiny"] = DatasetConfig(path="", loader=make_text, sample_processor=lambda sample: sample["text"])
register_train_spec(
    "llama3_tiny",
    replace(
        get_train_spec("llama3"),
        model_args={"tiny": TransformerModelArgs(dim=64, n_layers=2, n_heads=4, vocab_size=END + 1, rope_theta=10000)},
        build_tokenizer_fn=lambda config: ByteTokenizer(),
        state_dict_adapter=None,
    ),
)
