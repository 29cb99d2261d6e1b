"""The attempts of a job that its launcher started anew: only the last one has ended it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fsdpctl.explain.logs.streams import Stream

_RESTARTS = re.compile(r"will restart worker group|(?:Result:|^) +restart_count=[1-9]")


def last_attempts(streams: Sequence[Stream]) -> Sequence[Stream] | None:
    """Return what the streams of each file have of its last attempt; None if no launcher started anything anew."""
    restarts: dict[Path, int] = {}
    for stream in streams:
        restarts[stream.path] = max(restarts.get(stream.path, 0), _last_restart(stream))
    return [_after(stream, restarts[stream.path]) for stream in streams] if any(restarts.values()) else None


def _last_restart(stream: Stream) -> int:
    """Return the number, in the file, of the last line that reports a restart; 0 if there is none."""
    lines: Iterable[tuple[int, str]] = zip(stream.numbers, stream.lines, strict=True)
    return max((number for number, line in lines if "restart" in line and _RESTARTS.search(line)), default=0)


def _after(stream: Stream, restart: int) -> Stream:
    first = bisect_right(stream.numbers, restart)
    return replace(stream, lines=stream.lines[first:], numbers=stream.numbers[first:])
