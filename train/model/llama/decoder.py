"""A Llama: embedding, blocks, norm and head. A tied head has no weight of its own: it multiplies with the embedding's.

Shapes in names: B sequences, T positions, D model width, V vocabulary, P half of a head's width.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fsdpctl.contract.trainer.llama.config import LlamaConfig
from train.model.documents import Documents
from train.model.language_model import LanguageModel, draw_normal
from train.model.llama.block import LlamaBlock, Norm


class Llama(LanguageModel):
    HEAD_MODULES: ClassVar[tuple[str, ...]] = ("norm", "head")
    cos_TP: Tensor
    sin_TP: Tensor

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config.layers))
        self.norm = Norm(config.d_model, config.norm_eps)
        self.head = None if config.tie_embeddings else nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        for name in ("cos_TP", "sin_TP"):
            self.register_buffer(name, torch.empty(config.seq_len, config.head_dim // 2), persistent=False)

    def hidden(self, tokens_BT: Tensor, documents: Documents | None = None) -> Tensor:
        x_BTD: Tensor = self.dropout(self.embed(tokens_BT))
        x_BTD = x_BTD.to(self.autocast_dtype or x_BTD.dtype)
        at, mask = documents or (slice(tokens_BT.shape[1]), None)
        cos_TP, sin_TP = self.cos_TP[at], self.sin_TP[at]  # (B, T, P) where documents are kept apart
        for block in self.blocks:
            x_BTD = block(x_BTD, cos_TP, sin_TP, mask)
        return x_BTD

    def head_logits(self, x_BTD: Tensor) -> Tensor:
        x_BTD = self.norm(x_BTD)
        logits_BTV: Tensor = F.linear(x_BTD, self.embed.weight) if self.head is None else self.head(x_BTD)
        return logits_BTV

    @torch.no_grad()
    def fill_buffers(self, device: torch.device | str = "cpu") -> None:
        """Compute the rotary tables on the CPU, so that every device gets the same bits, and move them to `device`."""
        half = torch.arange(0, self.config.head_dim, 2, dtype=torch.float64) / self.config.head_dim
        positions = torch.arange(self.config.seq_len, dtype=torch.float64)
        angles_TP = torch.outer(positions, self.config.rope_theta**-half)
        self.cos_TP, self.sin_TP = (table.float().to(device) for table in (angles_TP.cos(), angles_TP.sin()))

    def initial_value(self, name: str, shape: torch.Size, seed: int) -> Tensor:
        """Return ones for norms; projections into the residual stream are scaled down by the additions to it."""
        if len(shape) == 1:
            return torch.ones(shape)
        into_residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
        std = self.config.init_std
        return draw_normal(name, shape, std / math.sqrt(2 * self.config.layers) if into_residual else std, seed)
