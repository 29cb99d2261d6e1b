"""Attention within documents: which tokens of a packed sequence see which, made once for each batch.

GPUs take flex attention, whose kernel skips the blocks of 128 x 128 tokens in which nothing is seen. On CPUs it has no
backward pass, so they take the mask as a tensor. Varlen attention has no padding either, but a shape that follows the
number of documents, which would be compiled again from batch to batch.

Shapes in names: B sequences, T positions, N blocks of positions, H query heads, K key/value heads, E head width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

BLOCK = 128  # tokens, flex attention's own

Mask = Tensor | BlockMask


class Documents(NamedTuple):
    """The documents in the sequences of a batch."""

    positions_BT: Tensor  # of each token in its document
    mask: Mask


def find_documents(positions_BT: Tensor) -> Documents:
    """Return the documents of sequences, from the position of each token in its document."""
    first_BT = torch.arange(positions_BT.shape[1], device=positions_BT.device) - positions_BT
    make = block_mask if positions_BT.device.type == "cuda" else dense_mask
    return Documents(positions_BT, make(first_BT))


def attend(q_BHTE: Tensor, k_BKTE: Tensor, v_BKTE: Tensor, mask: Mask | None) -> Tensor:
    """Return causal attention: of whole sequences without a mask, else within the documents of the mask."""
    grouped = q_BHTE.shape[1] != k_BKTE.shape[1]
    if mask is None:
        return F.scaled_dot_product_attention(q_BHTE, k_BKTE, v_BKTE, is_causal=True, enable_gqa=grouped)
    if isinstance(mask, Tensor):
        added = mask.type_as(q_BHTE)
        return F.scaled_dot_product_attention(q_BHTE, k_BKTE, v_BKTE, attn_mask=added, enable_gqa=grouped)
    attention: Any = flex_attention if torch.compiler.is_compiling() else _compiled_attention()
    out: Tensor = attention(q_BHTE, k_BKTE, v_BKTE, block_mask=mask, enable_gqa=grouped)
    return out


def dense_mask(first_BT: Tensor) -> Tensor:
    """Return what is added to scores, (B, 1, T, T): 0 where a token sees another, else -inf.

    `first_BT`: where the document of each token begins. Numbers, not booleans: torch would make numbers of those in
    each block, and keep all of them until the backward pass.
    """
    seen_T = torch.arange(first_BT.shape[1], device=first_BT.device)
    is_seen_BTT = (seen_T >= first_BT[..., None]) & (seen_T <= seen_T[:, None])
    zeros = torch.zeros(is_seen_BTT.shape, device=first_BT.device)
    return zeros.masked_fill_(~is_seen_BTT, -torch.inf)[:, None]


def block_mask(first_BT: Tensor) -> BlockMask:
    """Return the same for flex attention: which blocks of keys each block of queries sees in part, and which wholly.

    Documents follow each other, so a block of queries sees the keys from where the document of its first token begins.
    It sees a block of keys wholly which is before its own, and after the beginning of its last token's document.
    torch's `create_block_mask` gives the same, by way of a mask of all tokens.
    """
    T = first_BT.shape[1]

    def sees(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key >= first_BT[b, query]) & (key <= query)

    blocks_N = torch.arange(-(-T // BLOCK), device=first_BT.device)
    from_BN = first_BT[:, ::BLOCK] // BLOCK
    last_BN = first_BT[:, (blocks_N * BLOCK + BLOCK - 1).clamp(max=T - 1)]
    is_seen_BNN = (blocks_N >= from_BN[..., None]) & (blocks_N <= blocks_N[:, None])
    is_full_BNN = (blocks_N * BLOCK >= last_BN[..., None]) & (blocks_N < blocks_N[:, None])
    is_full_BNN &= (blocks_N * BLOCK + BLOCK <= T)[:, None]  # a last block that is shorter counts as seen in part
    partial, full = _listed(is_seen_BNN & ~is_full_BNN), _listed(is_full_BNN)
    return BlockMask.from_kv_blocks(*partial, *full, BLOCK_SIZE=BLOCK, mask_mod=sees, seq_lengths=(T, T))


def _listed(chosen_BNN: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many blocks of keys are chosen for each block of queries, and their numbers, those chosen first."""
    chosen_B1NN = chosen_BNN[:, None].int()
    return chosen_B1NN.sum(-1, dtype=torch.int32), chosen_B1NN.argsort(dim=-1, descending=True, stable=True).int()


@cache
def _compiled_attention() -> Callable[..., Any]:
    """Return flex attention for a model that is not compiled: without the compiler it would keep all scores."""
    return torch.compile(flex_attention, dynamic=False)
