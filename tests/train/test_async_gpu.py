"""Staging on a GPU: the copy runs beside the computation, and still holds what was there when it was asked for."""

from __future__ import annotations

import pytest
import torch

from tests.services import require
from train.checkpoint.staging import Staging

SPIN = 500_000_000  # clock cycles, some 0.3 s


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    require("cuda")
    return {f"w{i}": torch.full((1 << 20,), float(i), device="cuda") for i in range(16)}


def stage_late(weights: dict[str, torch.Tensor], *, hold: bool) -> list[float]:
    """Stage with a copy that comes late, change the weights at once, and return what was staged."""
    staging = Staging(weights, 0, range(1), torch.device("cuda", 0))
    assert staging.stream is not None
    with torch.cuda.stream(staging.stream):
        torch.cuda._sleep(SPIN)
    staged = staging.copy(weights)
    if hold:
        staging.hold()
    for tensor in weights.values():
        tensor.add_(100.0)
    staging.wait()
    assert all(piece.values.is_pinned() for piece in staged.values())
    return [piece.values.max().item() for piece in staged.values()]


def test_held_weights_are_staged_as_they_were(weights: dict[str, torch.Tensor]) -> None:
    assert stage_late(weights, hold=True) == [float(i) for i in range(16)]
    assert stage_late(weights, hold=True) == [float(i + 100) for i in range(16)]  # the same buffers again


def test_without_hold_the_change_would_reach_the_copy(weights: dict[str, torch.Tensor]) -> None:
    """Without this, the test above could pass because the copy was fast."""
    assert stage_late(weights, hold=False) != [float(i) for i in range(16)]
