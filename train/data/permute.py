"""A shuffled order of [0, size) that needs no memory: a keyed bijection, computed on demand.

A Feistel network permutes the smallest even-bit block that holds `size` values; a result outside of the range is
sent through again until it falls inside (cycle walking), which keeps it a bijection on the range.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.uint64]

ROUNDS = 6


def permute(indices: Indices, size: int, key: str) -> Indices:
    """Map each index in [0, size) to its position in the order of `key`."""
    half_bits = np.uint64((max(size - 1, 1).bit_length() + 1) // 2)
    digest = hashlib.blake2b(key.encode(), digest_size=8 * ROUNDS).digest()
    round_keys = np.frombuffer(digest, dtype="<u8").astype(np.uint64)
    out = _feistel(indices, half_bits, round_keys)
    while (outside := out >= size).any():
        out[outside] = _feistel(out[outside], half_bits, round_keys)
    return out


def _feistel(block: Indices, half_bits: np.uint64, round_keys: Indices) -> Indices:
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    left, right = block >> half_bits, block & mask
    for round_key in round_keys:
        left, right = right, left ^ (_mix(right ^ round_key) & mask)
    return (left << half_bits) | right


def _mix(x: Indices) -> Indices:
    """Apply the finalizer of splitmix64; unsigned overflow wraps, as it must."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
