"""What the GPUs of a node did during an attempt: a line every ten seconds, in a file that its agent writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.contract.codec import encode
from fsdpctl.contract.files import open_log, read_bytes
from fsdpctl.contract.node_report import GpuSample

EVERY_S = 10.0
LIMIT_BYTES = 16 * 2**20
"""A file grows no further: of eight GPUs that is a week."""


@dataclass(frozen=True)
class GpuMoment:
    """All GPUs of a node at one time, in the order of the node's report; null where one does not report it."""

    time: float  # seconds since the epoch
    busy: tuple[float | None, ...]  # share of the last moment in which a kernel ran
    memory_used: tuple[int | None, ...]  # bytes
    power_w: tuple[float | None, ...]


def append_moment(path: Path, time: float, gpus: Sequence[GpuSample]) -> None:
    """Append a line. Errors are ignored: a full disk must not stop the agent."""
    moment = GpuMoment(
        round(time, 1),
        tuple(gpu.busy for gpu in gpus),
        tuple(gpu.memory_used for gpu in gpus),
        tuple(gpu.power_w for gpu in gpus),
    )
    line = json.dumps(encode(moment), separators=(",", ":")).encode() + b"\n"
    with suppress(OSError), open(open_log(path), "ab", buffering=0) as file:
        if file.tell() + len(line) <= LIMIT_BYTES:
            file.write(line)


def read_moments(path: Path) -> Iterator[GpuMoment]:
    """Yield the lines of a file; none if it cannot be read."""
    with suppress(OSError):
        for line in read_bytes(path).splitlines():
            with suppress(ValueError, KeyError, TypeError, RecursionError):  # cut off by a full disk
                yield _parse(line)


def _parse(line: bytes) -> GpuMoment:
    """Return a moment; by hand, because a long run has a million lines. Raise ValueError, KeyError and TypeError."""
    value = json.loads(line)
    return GpuMoment(float(value["time"]), *(_numbers(value[name]) for name in ("busy", "memory_used", "power_w")))


def _numbers(values: object) -> tuple[Any, ...]:
    if not isinstance(values, list) or not all(type(value) in (int, float, type(None)) for value in values):
        raise TypeError("no list of numbers")
    return tuple(values)
