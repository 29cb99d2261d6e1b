"""Flex attention on a GPU: its kernels give what the mask of CPUs gives, compiled with the model or alone, once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from tests.services import require
from tests.train.test_model import small_model
from train.model import documents
from train.model.documents import dense_mask
from train.model.llama.decoder import Llama

LENGTH, BATCHES = 700, 3
"""No multiple of a block."""


def batch(seed: int) -> tuple[Tensor, Tensor]:
    """Return tokens and positions; documents differ from batch to batch."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 400, (2, LENGTH), generator=generator)
    rows = [torch.cat([torch.arange(length) for length in row.tolist()])[:LENGTH] for row in lengths]
    return torch.randint(64, (2, LENGTH), generator=generator).cuda(), torch.stack(rows).cuda()


def gradients(model: Llama) -> list[Tensor]:
    """Return the gradients of each batch, one after the other."""
    found = []
    for seed in range(BATCHES):
        model.zero_grad()
        tokens, positions = batch(seed)
        model(tokens, tokens.roll(-1, 1), positions).backward()
        found.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    return found


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("compiled", ["no", "blocks", "body"])
def test_kernels_give_what_the_dense_mask_gives(compiled: str, recompute: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    require("cuda")
    torch._dynamo.reset()
    model = small_model(seq_len=LENGTH, head_dim=64).cuda()
    model.fill_buffers("cuda")
    with monkeypatch.context() as patched:
        patched.setattr(documents, "block_mask", dense_mask)
        expected = gradients(model)
    for block in model.block_list():
        block.recompute = recompute
        if compiled == "blocks":
            block.compile(dynamic=False)
    if compiled == "body":
        model.body = torch.compile(model.body, dynamic=False)
    counters.clear()
    for ours, theirs in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-3 * theirs.abs().max().item())
    assert counters["stats"]["unique_graphs"] == 1, "all batches take the same graph"
