"""Chooses the sequences of a step: a pure function of the step, the same in every world.

An epoch is a keyed permutation of the training sequences. Step s takes the permuted positions [s*G, (s+1)*G),
continuing over the ends of epochs. Micro-step m of rank r, in a world of W with b sequences a time, takes positions
(m*W + r)*b onwards of these: any W gives the same set. So there is no state to save, and nothing to restore.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from train.data.permute import permute

SampleIds = NDArray[np.int64]


@dataclass(frozen=True)
class SampleOrder:
    """The order in which training sequences are seen."""

    num_sequences: int
    batch: int  # G, sequences of one optimizer step
    seed: int

    def step_ids(self, step: int) -> SampleIds:
        """Return the sequences of the step after `step` steps, in order."""
        positions = np.arange(step * self.batch, (step + 1) * self.batch, dtype=np.uint64)
        epochs, within = np.divmod(positions, np.uint64(self.num_sequences))
        ids = np.empty(self.batch, dtype=np.int64)
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
            chosen = epochs == epoch
            ids[chosen] = permute(within[chosen], self.num_sequences, key=f"{self.seed}/{epoch}")
        return ids


def rank_share(ids: SampleIds, rank: int, world: int, micro_batch: int) -> SampleIds:
    """Return one rank's part of a step: (accumulation steps, micro_batch)."""
    return ids.reshape(-1, world, micro_batch)[:, rank]


def hash_samples(ids: SampleIds) -> str:
    """Return a 64-bit digest of a step's sequences in order, to compare runs by."""
    return hashlib.blake2b(ids.astype("<i8").tobytes(), digest_size=8).hexdigest()
