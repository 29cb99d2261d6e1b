"""How the time of traced steps is divided on one rank: compute, communication beside it or alone, and nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch._C._autograd import DeviceType

Span = tuple[float, float]  # begin and end, in microseconds


@dataclass(frozen=True)
class TimeShares:
    """Fractions of the time from the first to the last traced operation. The rest of compute + exposed is idle."""

    compute: float
    communication: float  # a collective runs, its waiting for other ranks included
    exposed: float  # the part of it in which nothing computes

    def summary(self) -> dict[str, float]:
        """Return the numbers of the outcome."""
        return {
            "compute_share": round(self.compute, 4),
            "communication_share": round(self.communication, 4),
            "exposed_communication_share": round(self.exposed, 4),
        }


def measure_shares(events: Iterable[Any], device: str) -> TimeShares | None:
    """Return the shares of the events of a torch profiler; None if nothing has run."""
    compute: list[Span] = []
    communication: list[Span] = []
    for event in events:
        is_communication = _classify(event, device)
        if is_communication is not None:
            span = (event.time_range.start, event.time_range.end)
            (communication if is_communication else compute).append(span)
    return divide(compute, communication)


def _classify(event: Any, device: str) -> bool | None:
    """Return whether an event is communication, or compute; None if it is neither.

    On a GPU its kernels and copies count, but not annotations, which span whole phases. Gloo has no kernels: its works
    are annotations of its threads, and the operators beside them are compute.
    """
    if device == "cuda":
        if event.device_type != DeviceType.CUDA or event.is_user_annotation:
            return None
        return "nccl" in event.name.lower()
    if event.name.startswith("gloo:"):
        return True
    return False if event.name.startswith("aten::") else None


def divide(compute: list[Span], communication: list[Span]) -> TimeShares | None:
    """Return the shares of the time that the spans take together; None if there are none."""
    everything = [*compute, *communication]
    total = max((end for _, end in everything), default=0.0) - min((begin for begin, _ in everything), default=0.0)
    if total <= 0:
        return None
    busy, computing = _covered(everything), _covered(compute)
    return TimeShares(computing / total, _covered(communication) / total, (busy - computing) / total)


def _covered(spans: list[Span]) -> float:
    """Return how much time the spans cover, overlaps once."""
    covered, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return covered
