"""The base class of every architecture: what the generic parts of the trainer may ask of a model.

Shapes in names: B sequences, T positions, D model width, V vocabulary.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from train.model.documents import Documents, find_documents
from train.model.recompute import Block

IGNORED = -100  # a target that does not count


class TokenLoss(nn.Module):
    """Cross-entropy summed over tokens, in fp32. A module, so that it can be compiled on its own."""

    def forward(self, logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        logits = logits_BTV.flatten(0, 1).float()
        loss: Tensor = F.cross_entropy(logits, targets_BT.flatten(), ignore_index=IGNORED, reduction="sum")
        return loss


class LanguageModel(nn.Module):
    """A model of numbered blocks; calling it gives the loss summed over the tokens of the batch.

    A subclass has `blocks`, and defines `hidden`, `head_logits` and `initial_value`. Its modules and parameters have
    the names that its configuration lists.
    """

    HEAD_MODULES: ClassVar[tuple[str, ...]]
    """The modules that `head_logits` calls."""
    blocks: nn.ModuleList

    def __init__(self) -> None:
        super().__init__()
        self.autocast_dtype: torch.dtype | None = None  # set where no FSDP casts the parameters
        self.loss = TokenLoss()
        self.body = self.summed_loss  # compiled as one, or with compiled parts

    def hidden(self, tokens_BT: Tensor, documents: Documents | None = None) -> Tensor:
        """Return the output of the last block, (B, T, D). With `documents`, no token sees one of another document."""
        raise NotImplementedError

    def head_logits(self, x_BTD: Tensor) -> Tensor:
        """Return the logits of the last block's output, (B, T, V)."""
        raise NotImplementedError

    def initial_value(self, name: str, shape: torch.Size, seed: int) -> Tensor:
        """Return the first value of one whole parameter: a function of seed and name, so the same in every world."""
        raise NotImplementedError

    def fill_buffers(self, device: torch.device | str = "cpu") -> None:
        """Compute what is neither trained nor saved, on the CPU so that every device gets the same bits."""

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor, positions_BT: Tensor | None = None) -> Tensor:
        """Return the loss. `positions_BT`: of each token in its document, where documents are kept apart."""
        documents = None if positions_BT is None else find_documents(positions_BT)
        casts = self.autocast_dtype is not None
        with torch.autocast(tokens_BT.device.type, self.autocast_dtype, enabled=casts):
            return self.body(tokens_BT, targets_BT, documents)

    def summed_loss(self, tokens_BT: Tensor, targets_BT: Tensor, documents: Documents | None) -> Tensor:
        """Return the loss. Methods within methods: the units decide which of them is timed to find stragglers."""
        return self.head_loss(self.hidden(tokens_BT, documents), targets_BT)

    def head_loss(self, x_BTD: Tensor, targets_BT: Tensor) -> Tensor:
        return self.token_loss(self.head_logits(x_BTD), targets_BT)

    def token_loss(self, logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        loss: Tensor = self.loss(logits_BTV, targets_BT)
        return loss

    def logits(self, tokens_BT: Tensor, documents: Documents | None = None) -> Tensor:
        """Return the logits of every position, (B, T, V)."""
        return self.head_logits(self.hidden(tokens_BT, documents))

    def block_list(self) -> list[Block]:
        return list(self.blocks)  # type: ignore[arg-type]


def draw_normal(name: str, shape: torch.Size, std: float, seed: int) -> Tensor:
    """Draw a parameter on the CPU, from a generator that depends on seed and name only."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
    return torch.randn(shape, generator=generator) * std
