"""The rank of a failure whose own lines name none: from what its rank, its launcher or its pod writes elsewhere."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from fsdpctl.explain.logs.match import Match
from fsdpctl.explain.logs.streams import Stream

_REPORTER = re.compile(r"\[[Rr]ank (\d+)\]")
_EXITS = re.compile(r"(?i)\W*(?:exit|abort|fail|terminat|quit)(?:s|ed|ing)?\b")
_EXIT_OF_RANK = re.compile(r"exit(?:ed|[_ ]?code|[_ ]?status)?[ =:]+(?!-?(?:6|15)\b|134\b|143\b)-?[1-9]\d*\b")
"""Not of those that abort after another one, or that are asked to end."""
_PROCESSES = (
    re.compile(r"\bpid=(?P<pid>\d+)\) world_rank=(?P<rank>\d+)"),  # Ray
    re.compile(r"\bprocess (?P<pid>\d+) spawned with command: .*'--local_rank=(?P<rank>\d+)'"),  # DeepSpeed
    re.compile(r"\b[Rr]ank[ =:]+(?P<rank>\d+)\b.{0,20}?\b(?i:pid)[ =:]+(?P<pid>\d+)"),
)
_PID = re.compile(r"\b(?i:pid)[ =:]+(\d+)|\b[Pp]rocess (\d{3,})\b|\bpython[\d.]*\[(\d+)\]: segfault")
_RAY_TASK = re.compile(r"ray::_?RayTrainWorker.{0,60}?\(pid=(\d+)")
"""The head of what a worker raised; its traceback and exception follow."""
_POD = re.compile(r"\b[\w-]+-(?P<role>master|worker|chief)-(?P<number>\d+)\b")
_NAMED_POD = re.compile(rf"\b[Pp]ods?[/ ](?:[\w-]+/)?{_POD.pattern}")
_MIN_MESSAGE = 12
_NEAR = 8
"""Lines around a failure in which its process or its pod is looked for."""


def rank_below(number: int, path: object, streams: Iterable[Stream]) -> int | None:
    """Return the rank that reports its end directly below line `number` of a file."""
    for stream in streams:
        if stream.rank is not None and stream.path == path:
            for at, line in zip(stream.numbers, stream.lines, strict=True):
                if number < at <= number + 2 and _EXITS.match(line):
                    return stream.rank
    return None


def announced_rank(match: Match, stream: Stream, streams: Sequence[Stream]) -> int | None:
    """Return the rank of a failure in lines without one, if others name a single one for it."""
    own = [other for other in streams if other.path == stream.path]
    named = (
        _rank_of_message(match, stream),
        _rank_of_process(match, stream, own),
        _rank_of_pod(match, stream, own),
        _rank_of_exit(own),
    )
    return next((rank for rank in named if rank is not None), None)


def _rank_of_message(match: Match, stream: Stream) -> int | None:
    """Return the rank in a line that has the same message, as of a watchdog."""
    message = match.line.partition(": ")[2]
    if len(message) < _MIN_MESSAGE:
        return None
    lines = (line for line in stream.lines if message in line)
    return _single(int(found[1]) for line in lines if (found := _REPORTER.search(line)))


def _rank_of_process(match: Match, stream: Stream, streams: Iterable[Stream]) -> int | None:
    near = stream.lines[match.number - 1 : match.number + _NEAR]
    pids = {pid for line in near for found in _PID.finditer(line) for pid in found.groups() if pid}
    heads = (found[1] for line in stream.lines[: match.number] if (found := _RAY_TASK.search(line)))
    pids |= set(deque(heads, maxlen=1))
    lines = (line for other in streams for line in other.lines if "rank" in line.lower()) if pids else ()
    return _single(int(found["rank"]) for line in lines for found in _processes(line) if found["pid"] in pids)


def _processes(line: str) -> Iterator[re.Match[str]]:
    return (found for pattern in _PROCESSES for found in pattern.finditer(line))


def _rank_of_exit(streams: Iterable[Stream]) -> int | None:
    """Return the only rank of which the log has that it left, and with which code."""
    return _single(
        stream.rank for stream in streams if stream.rank is not None and any(map(_EXIT_OF_RANK.match, stream.lines))
    )


def _rank_of_pod(match: Match, stream: Stream, streams: Sequence[Stream]) -> int | None:
    """Return the rank of the pod that is named nearest to a failure, where each pod of an operator has one rank: the
    master is the first."""
    ranks = {at: other.rank for other in streams if other.rank is not None for at in other.numbers}
    lines = list(zip(stream.numbers, stream.lines, strict=True))
    seen = {
        (pod, ranks[at]) for at, line in lines if at in ranks and (pod := _number_of(_POD.search(line))) is not None
    }
    if not seen or any(pod != rank for pod, rank in seen):
        return None
    here = stream.numbers[match.number - 1]
    named = [(abs(at - here), found) for at, line in lines if (found := _NAMED_POD.search(line))]
    near = [found for distance, found in sorted(named, key=lambda one: one[0]) if distance <= _NEAR]
    if near:
        return _number_of(near[0])
    return _single(rank for _, found in named if (rank := _number_of(found)) is not None)


def _number_of(pod: re.Match[str] | None) -> int | None:
    """Return the rank of a pod of the training operator, in which workers are counted from 0, after the master."""
    if pod is None:
        return None
    return int(pod["number"]) + (pod["role"] == "worker")


def _single(ranks: Iterable[int]) -> int | None:
    found = set(ranks)
    return found.pop() if len(found) == 1 else None
