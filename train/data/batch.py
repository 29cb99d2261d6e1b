"""The sequences of one forward pass: a pure function of their numbers, so that they can be read ahead.

Shapes in names: B sequences, T positions, S = T + 1 tokens, which are inputs and targets.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fsdpctl.contract.trainer.trainer_config import DataConfig
from train.data.sample_order import SampleIds
from train.data.tokens import Tokens
from train.model.language_model import IGNORED


class Batch(NamedTuple):
    """Sequences, on the host or on a device."""

    tokens_BS: Tensor  # ids; one that is no target of the loss is inverted (~id)
    positions_BS: Tensor | None  # of each token in its document, where attention is within documents

    @property
    def positions_BT(self) -> Tensor | None:
        """Those of the inputs."""
        return None if self.positions_BS is None else self.positions_BS[:, :-1]

    def position_sum(self) -> Tensor:
        """Return the sum of the positions of all inputs: of whole sequences, in those."""
        if self.positions_BT is not None:
            return self.positions_BT.sum()
        B, S = self.tokens_BS.shape
        return torch.full((), B * (S - 1) * (S - 2) // 2, device=self.tokens_BS.device)

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device, without waiting for the copy to a GPU."""
        tensors = [None if tensor is None else _move(tensor, device) for tensor in self]
        return Batch(*tensors)  # type: ignore[arg-type]


def read_batch(tokens: Tokens, ids: SampleIds, config: DataConfig) -> Batch:
    """Read sequences by their numbers."""
    return Batch(tokens.sequences(ids), tokens.positions(ids) if config.attention == "document" else None)


def blank_batch(sequences: int, seq_len: int, config: DataConfig) -> Batch:
    """Return a batch of zeros, with the shapes and types of one that is read."""
    tokens_BS = torch.zeros(sequences, seq_len + 1, dtype=torch.int64)
    return Batch(tokens_BS, torch.arange(seq_len + 1).repeat(sequences, 1) if config.attention == "document" else None)


def split_targets(batch: Batch, ignore_token: int | None) -> tuple[Tensor, Tensor]:
    """Split sequences of T + 1 tokens into inputs and targets, each (B, T).

    Targets that do not count are IGNORED: inverted ones (~id), `ignore_token`, and where attention is within documents
    the first token of each, which nothing of its document comes before.
    """
    inputs_BT, targets_BT = batch.tokens_BS[:, :-1], batch.tokens_BS[:, 1:]
    inputs_BT, targets_BT = torch.maximum(inputs_BT, ~inputs_BT), targets_BT.masked_fill(targets_BT < 0, IGNORED)
    if ignore_token is not None:
        targets_BT = targets_BT.masked_fill(targets_BT == ignore_token, IGNORED)
    if batch.positions_BS is not None:
        targets_BT = targets_BT.masked_fill(batch.positions_BS[:, 1:] == 0, IGNORED)
    return inputs_BT, targets_BT


def _move(tensor: Tensor, device: torch.device) -> Tensor:
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
