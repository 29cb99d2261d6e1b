"""Explain logs that are no run of fsdpctl: of one process, of many ranks in one file, or one file per rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from fsdpctl.contract.source_files import is_library
from fsdpctl.contract.stack_dump import Frame
from fsdpctl.explain.categories import Role
from fsdpctl.explain.logs.announced import announced_rank, rank_below
from fsdpctl.explain.logs.attempts import last_attempts
from fsdpctl.explain.logs.blamed import blamed_rank
from fsdpctl.explain.logs.choose import LOST_STORAGE, OF_LOST_STORAGE, UNEXPLAINED_KILL, choose_end
from fsdpctl.explain.logs.diagnosis import Failure, LogDiagnosis
from fsdpctl.explain.logs.launcher_summary import LauncherSummary, find_summary, later_failures
from fsdpctl.explain.logs.match import Match, match_text
from fsdpctl.explain.logs.streams import Stream, read_streams
from fsdpctl.explain.logs.survived import fatal_matches
from fsdpctl.explain.rule import Strength
from fsdpctl.logs.stamp import parse_stamp

_MANY_RANKS = re.compile(
    r"torch[./]distributed|ProcessGroup|local_rank|ChildFailedError|DistributedDataParallel|NCCL (?:INFO|WARN)"
    r"|deepspeed|srun: error: .*: tasks? \d"
)
_KNOWN = 2
"""The distance up to which a failure is one of a rank, and no mere hint."""


@dataclass(frozen=True)
class _End:
    """The match that ended one stream, when, and what a launcher reports of it."""

    stream: Stream
    match: Match
    time: float
    summary: LauncherSummary | None


def explain_files(paths: Sequence[Path]) -> LogDiagnosis:
    """Read the ends of log files and return the failures in them. Raise OSError for a file that cannot be read."""
    return explain_streams(list(read_streams(paths)))


def explain_streams(streams: Sequence[Stream]) -> LogDiagnosis:
    """Return the failures in the lines of some ranks: those of the last attempt, if it has any."""
    last = last_attempts(streams)
    ends = [] if last is None else _read_ends(last)
    if not any(_distance(end.match) <= _KNOWN for end in ends):
        ends = _read_ends(streams)
    ends.sort(key=_order)
    return LogDiagnosis(tuple(_failure(end, ends[0], streams) for end in ends))


def _read_ends(streams: Sequence[Stream]) -> list[_End]:
    """Return how each stream ended, of those for which that is known."""
    summaries = [find_summary(stream.lines) for stream in streams]
    of_all = next((summary for summary in summaries if summary is not None), None)
    ends = [
        end
        for stream, own in zip(streams, summaries, strict=True)
        if (end := _end_of(stream, own if stream.node else own or of_all)) is not None
    ]
    return _without_copies(_with_lost_storage(ends))


def _end_of(stream: Stream, summary: LauncherSummary | None) -> _End | None:
    many = stream.rank is None and any(_MANY_RANKS.search(line) for line in stream.lines)
    later = later_failures(stream.lines)
    matches = [match for match in match_text(stream.lines) if match.number not in later]
    matches = fatal_matches(matches, stream.lines, many=many)
    chosen = choose_end(matches, first=many)
    return None if chosen is None else _End(stream, chosen, _time_of(stream.lines, chosen.number), summary)


def _with_lost_storage(ends: Sequence[_End]) -> list[_End]:
    """Return the ends; where a kernel reports that a file system was lost, what ranks ended by follows from that."""
    lost = next((end.match.rule for end in ends if end.match.rule.id == LOST_STORAGE), None)
    return [
        end
        if lost is None or end.match.rule.id not in OF_LOST_STORAGE
        else replace(end, match=replace(end.match, rule=lost))
        for end in ends
    ]


def _without_copies(ends: Sequence[_End]) -> list[_End]:
    """Return the ends without those of logs of no rank, as of a launcher or a kernel, that a rank reports, too."""
    of_ranks = {end.match.rule.id for end in ends if end.stream.rank is not None}
    return [end for end in ends if end.stream.rank is not None or end.match.rule.id not in of_ranks]


def _time_of(lines: Sequence[str], number: int) -> float:
    """Return the time stamp of a line, or of the nearest before it that has one."""
    for text in reversed(lines[max(0, number - 200) : number]):
        if (stamp := parse_stamp(text, 0.0)) is not None:
            return stamp
    return inf


def _order(end: _End) -> tuple[int, bool, float, int]:
    """Return the key that sorts the initiating failure to the front."""
    is_named = end.summary is not None and end.stream.rank == end.summary.rank
    return _distance(end.match), not is_named, end.time, end.stream.numbers[end.match.number - 1]


def _distance(match: Match) -> int:
    """Return 0 for a failure of a rank's own whose kind is known, more for what may follow from another."""
    if match.rule.role is Role.TEARDOWN:
        return 5
    if match.strength is Strength.HINT:
        return 4 if match.is_message else 3
    if match.rule.role is Role.CASCADE:
        return _KNOWN
    is_vague = match.strength is Strength.GENERIC or match.rule.id == UNEXPLAINED_KILL
    return 1 if is_vague else 0


def _failure(end: _End, first: _End, streams: Sequence[Stream]) -> Failure:
    rule, match, stream, summary = end.match.rule, end.match, end.stream, end.summary
    rank, host = stream.rank, stream.host or match.fields.get("host")
    number = stream.numbers[match.number - 1]
    if end is first and rank is None:
        rank = rank_below(number, stream.path, streams)
    if end is first and summary is not None and rank in (None, summary.rank):
        rank, host = summary.rank, host or summary.host
    if end is first and rank is None:
        rank = announced_rank(match, stream, streams)
    if end is first and (blamed := blamed_rank(match, stream.lines)) not in (None, rank):
        rank, host = blamed, None
    return Failure(
        rank=rank,
        host=host,
        role=_role(end, first),
        rule=rule.id,
        category=match.category,
        domain=rule.domain,
        retry=rule.retry,
        confidence=match.confidence,
        sentence=match.sentence,
        remedy=match.remedy,
        docs=rule.docs,
        file=str(stream.path),
        number=number,
        is_cut=stream.is_cut,
        line=match.line,
        fields=match.fields,
        frame=_own_frame(match.frames),
    )


def _own_frame(frames: Sequence[Frame]) -> Frame | None:
    own = [frame for frame in frames if not is_library(frame.file)]
    return own[-1] if own else None


def _role(end: _End, first: _End) -> Role:
    """Return the part of a failure: one that follows from another is never the initiating one, found or not; the same
    one on several ranks is of each its own."""
    role = end.match.rule.role
    if role is Role.INITIATING and end.match.rule is not first.match.rule:
        return Role.CASCADE
    return role
