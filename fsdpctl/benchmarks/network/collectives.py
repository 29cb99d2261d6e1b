"""Measure collectives over all ranks. Sizes and bus bandwidth are those of nccl-tests (doc/PERFORMANCE.md): the size is
that of the whole buffer, and the bus bandwidth what each link must carry for it, the same for any number of ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist

from fsdpctl.benchmarks.ranks import Ranks
from fsdpctl.contract.benchmarks import Collective, CollectiveSpeed

ENOUGH_S = 0.5
"""Calls are repeated for this long, so that the clock does not matter."""
MAX_CALLS = 20
MAX_CALL_S = 5.0
"""A collective that takes longer is measured no further: the next size would take twice as long."""

_FACTORS: dict[Collective, Callable[[int], float]] = {
    Collective.ALL_REDUCE: lambda ranks: 2 * (ranks - 1) / ranks,
    Collective.ALL_GATHER: lambda ranks: (ranks - 1) / ranks,
    Collective.REDUCE_SCATTER: lambda ranks: (ranks - 1) / ranks,
}


def bus_bandwidth(collective: Collective, num_bytes: int, seconds: float, ranks: int) -> float:
    """Return what each link has carried, in bytes/s, for a buffer of `num_bytes`."""
    return num_bytes / seconds * _FACTORS[collective](ranks)


def measure_collectives(ranks: Ranks, sizes: Sequence[int]) -> Iterator[CollectiveSpeed | int]:
    """Yield the speed of each collective, from small sizes to large ones; a size alone if it would take too long."""
    slowest_s = 0.0
    for size in sorted(sizes):
        if slowest_s > MAX_CALL_S:
            yield size
            continue
        for collective in Collective:
            num_bytes, call = _prepare(ranks, collective, size)
            seconds = _time_calls(ranks, call)
            slowest_s = max(slowest_s, seconds)
            yield CollectiveSpeed(
                collective, num_bytes, seconds, bus_bandwidth(collective, num_bytes, seconds, ranks.size)
            )


def _prepare(ranks: Ranks, collective: Collective, size: int) -> tuple[int, Callable[[], object]]:
    """Return the size in bytes, a multiple of what the ranks share, and the call."""
    dtype = torch.bfloat16 if ranks.device.type == "cuda" else torch.float32
    part = torch.ones(max(1, size // dtype.itemsize // ranks.size), dtype=dtype, device=ranks.device)
    whole = torch.ones(part.numel() * ranks.size, dtype=dtype, device=ranks.device)
    calls: dict[Collective, Callable[[], object]] = {
        Collective.ALL_REDUCE: lambda: dist.all_reduce(whole, op=dist.ReduceOp.MAX),  # a sum would overflow
        Collective.ALL_GATHER: lambda: dist.all_gather_into_tensor(whole, part),
        Collective.REDUCE_SCATTER: lambda: dist.reduce_scatter_tensor(part, whole, op=dist.ReduceOp.MAX),
    }
    return whole.nbytes, calls[collective]


def _time_calls(ranks: Ranks, call: Callable[[], object]) -> float:
    """Return the seconds of one call, on average, of the rank that took longest."""
    _time(ranks, call, 1)  # connects
    once = ranks.maximum(_time(ranks, call, 1))
    calls = min(MAX_CALLS, int(ENOUGH_S / once))
    return once if calls < 2 else ranks.maximum(_time(ranks, call, calls))


def _time(ranks: Ranks, call: Callable[[], object], calls: int) -> float:
    ranks.synchronize()
    ranks.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    ranks.synchronize()
    return (time.perf_counter() - start) / calls
