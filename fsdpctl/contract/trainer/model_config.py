"""The model architectures of the bundled trainer, as far as they must be known without torch: one row each.

An architecture is a folder beside this file and one below `train/model/`, each with one row: here and in
`train/model/table.py`. Its configuration is a dataclass with these members, which generic code reads:

    vocab_size, layers, seq_len
    shrunk(max_layers)                  a tiny model of the same kind, for `--smoke`
    num_parameters, block_parameters    how many parameters the model has, and each of its blocks
    matrix_flops, attention_flops       floating-point operations of a token, forward and backward
    BLOCK_PARTS                         names of the modules in a block, each before those inside of it
    linear_shapes()                     the sides (out, in) of the matrix of each linear layer, by its name
    module_names(), parameter_names()   names of all, in the order of the model; blocks are blocks.0, blocks.1, ...
    shared_modules()                    names of those with a weight that another module uses, too: they are no units
"""

from __future__ import annotations

from fsdpctl.contract.formats.hugging_face import HuggingFaceFormat
from fsdpctl.contract.trainer.llama.config import LlamaConfig
from fsdpctl.contract.trainer.llama.hugging_face import HF_LLAMA

ModelConfig = LlamaConfig
"""The `model` mapping of a job: a union of dataclasses as soon as there are two architectures."""

HUGGING_FACE: dict[type[ModelConfig], HuggingFaceFormat] = {LlamaConfig: HF_LLAMA}
"""Names and configuration of the same model in transformers."""
