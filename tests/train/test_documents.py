"""Attention within documents: a packed sequence gives what its documents give one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.nn.attention import flex_attention
from torch.nn.attention.flex_attention import create_block_mask

from fsdpctl.contract.formats.dataset import ShardWriter
from tests.train.test_model import small_model
from train.data.batch import Batch, split_targets
from train.data.tokens import Tokens
from train.model import documents
from train.model.documents import block_mask, dense_mask, find_documents
from train.model.language_model import IGNORED
from train.model.llama.decoder import Llama

LENGTHS = ((5, 1, 10), (16,))  # of the documents of two sequences


def packed(lengths: tuple[tuple[int, ...], ...] = LENGTHS) -> tuple[Tensor, Tensor]:
    """Return tokens and positions of sequences of documents, (B, T)."""
    positions = torch.tensor([[p for length in row for p in range(length)] for row in lengths])
    tokens = torch.randint(64, positions.shape, generator=torch.Generator().manual_seed(0))
    return tokens, positions


def losses(model: Llama, tokens_BT: Tensor, positions_BT: Tensor | None) -> Tensor:
    """Return the loss of each token as a target, (B, T - 1)."""
    found = None if positions_BT is None else find_documents(positions_BT)
    logits = model.logits(tokens_BT, found)[:, :-1]
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens_BT[:, 1:], reduction="none")


def one_by_one(tokens_BT: Tensor) -> list[Tensor]:
    return [part[None] for row, lengths in zip(tokens_BT, LENGTHS, strict=True) for part in row.split(lengths)]


def test_logits_are_those_of_the_documents_one_by_one() -> None:
    model = small_model()
    tokens, positions = packed()
    alone = torch.cat([model.logits(part) for part in one_by_one(tokens)], dim=1)
    together = model.logits(tokens, find_documents(positions)).reshape(1, -1, 64)
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-6)
    assert (model.logits(tokens).reshape(1, -1, 64) - alone).abs().max() > 1e-3, "without documents"


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_gradients_are_those_of_the_documents_one_by_one(recompute: Any) -> None:
    model = small_model()
    for block in model.block_list():
        block.recompute = recompute
    tokens, positions = packed()
    for part in one_by_one(tokens):
        if part.shape[1] > 1:
            model(part[:, :-1], part[:, 1:]).backward()
    alone = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    batch = Batch(tokens, positions)
    inputs, targets = split_targets(batch, None)
    model(inputs, targets, batch.positions_BT).backward()
    assert {name: parameter.grad for name, parameter in model.named_parameters()}.keys() == alone.keys()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, alone[name], rtol=1e-5, atol=1e-6)


def test_a_token_s_loss_does_not_depend_on_another_document() -> None:
    model = small_model()
    tokens, positions = packed()
    changed = tokens.clone()
    changed[0, :5] = (changed[0, :5] + 1) % 64
    last = slice(6, None)  # the targets within the last document of the first sequence
    before, after = (losses(model, one, positions)[0, last] for one in (tokens, changed))
    assert torch.equal(before, after)
    before, after = (losses(model, one, None)[0, last] for one in (tokens, changed))
    assert ((before - after).abs() > 1e-5).all(), "without documents each of them does"


def test_the_first_token_of_a_document_is_no_target() -> None:
    tokens, positions = packed()
    _, targets = split_targets(Batch(tokens, positions), None)
    assert [(row, at + 1) for row, at in (targets == IGNORED).nonzero().tolist()] == [(0, 5), (0, 6)]


def test_positions_begin_at_0_in_each_document() -> None:
    model = small_model()
    tokens, positions = packed()
    given: list[Tensor] = []
    model.blocks[0].register_forward_pre_hook(lambda _, inputs: given.extend(inputs[1:3]))
    model.logits(tokens, find_documents(positions))
    for found, table in zip(given, (model.cos_TP, model.sin_TP), strict=True):
        for row, lengths in enumerate(LENGTHS):
            assert torch.equal(found[row], torch.cat([table[:length] for length in lengths]))


def test_positions_follow_the_ends_of_documents_over_shards(tmp_path: Path) -> None:
    """Documents of 3, 7, 2 and 12 tokens in two shards; one goes over three sequences."""
    shards = []
    for number, lengths in enumerate([(3, 7), (2, 12)]):
        writer = ShardWriter(tmp_path, f"train-{number:05d}")
        writer.add(np.zeros(sum(lengths), dtype="<u2").tobytes(), lengths)
        shards.append(writer.close())
    tokens = Tokens(tmp_path, [shard for shard in shards if shard], "uint16", seq_len=5)
    assert tokens.positions(np.array([0, 1, 2, 3])).tolist() == [
        [0, 1, 2, 0, 1, 2],
        [0, 1, 2, 3, 4, 0],
        [0, 1, 0, 1, 2, 3],
        [0, 1, 2, 3, 4, 5],
    ]
    assert tokens.positions(np.array([2])).tolist() == tokens.positions(np.array([0, 2]))[1:].tolist()


def test_the_blocks_of_a_gpu_s_mask_are_those_that_torch_finds() -> None:
    generator = np.random.default_rng(0)
    for length in (64, 256, 700, 1024):
        lengths = generator.choice([1, 3, 60, 128, 200, 500], size=(3, length))
        begins = np.stack([np.repeat(np.cumsum(row) - row, row)[:length] for row in lengths])
        ours = block_mask(torch.from_numpy(begins))
        theirs = create_block_mask(ours.mask_mod, 3, None, length, length, device="cpu")
        assert ours.shape == theirs.shape
        for name in ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_indices"):
            assert torch.equal(getattr(ours, name), getattr(theirs, name)), (length, name)


def test_flex_attention_gives_the_same_from_one_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block is compiled, of the other attention alone. The kernels need a GPU, and flex attention refuses to train
    on CPUs: here torch computes what they are defined by."""
    torch._dynamo.reset()
    model = small_model(head_dim=16)
    batches = [packed(lengths) for lengths in (LENGTHS, ((16,), (3, 3, 10)))]
    expected = [gradients(model, *batch) for batch in batches]
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    monkeypatch.setattr(documents, "dense_mask", block_mask)
    alone = torch.compile(flex_attention.flex_attention, dynamic=False, backend="aot_eager")
    monkeypatch.setattr(documents, "_compiled_attention", lambda: alone)
    compiled, _ = model.block_list()
    compiled.recompute = "selective"
    compiled.compile(dynamic=False, backend="aot_eager")
    counters.clear()
    found = [gradients(model, *batch) for batch in batches]
    assert counters["stats"]["unique_graphs"] == 2 and not counters["graph_break"]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def gradients(model: Llama, tokens_BT: Tensor, positions_BT: Tensor) -> dict[str, Tensor | None]:
    model.zero_grad()
    model(tokens_BT, tokens_BT.roll(-1, 1), positions_BT).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def test_the_mask_of_cpus_is_causal_within_documents() -> None:
    begins = torch.tensor([[0, 0, 2, 2]])
    assert (dense_mask(begins)[0, 0] == 0).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
