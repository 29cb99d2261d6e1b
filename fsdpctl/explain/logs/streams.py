"""The ends of log files, separated by the rank or node that wrote each line, by its prefix or the name of the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fsdpctl.contract.files import open_file
from fsdpctl.explain.logs.columns import read_columns
from fsdpctl.explain.logs.learned_prefix import learn_prefix
from fsdpctl.explain.logs.prefixes import Prefixed, read_prefixes
from fsdpctl.explain.logs.records import read_record
from fsdpctl.logs.splitter import LineSplitter

MAX_BYTES = 8 * 2**20
"""Bytes that are read of the ends of all files together, but for `MIN_BYTES` of each."""
MIN_BYTES = 64 * 1024

_NAME = re.compile(r"(?<![a-z])(?<!node[-_.])rank[-_]?(\d{1,6})(?!\d)")
_LAUNCHER = re.compile(
    r"torch[./]distributed[./](?:elastic[./](?:agent|multiprocessing[./]api)|run\.py)|ChildFailedError"
    r"|torch[./]multiprocessing[./]spawn"
)
_SUMMARY = re.compile(r"(?:^|\s)rank\s+: (\d+) \(local_rank: (\d+)\)")


@dataclass
class Stream:
    """The lines that one rank wrote to one file, or all lines without a rank, of each node by itself."""

    path: Path
    rank: int | None
    node: str | None = None  # a pod, or a task of srun that is a launcher
    is_cut: bool = False  # only the end of the file was read
    host: str | None = None
    lines: list[str] = field(default_factory=list)  # without the prefix of the rank
    numbers: list[int] = field(default_factory=list)  # of each line in the part of the file that was read, from 1


def read_streams(paths: Sequence[Path]) -> Iterator[Stream]:
    """Yield the streams of all files. Raise OSError for a file that cannot be read, with its name."""
    limit = max(MIN_BYTES, MAX_BYTES // max(1, len(paths)))
    for path in paths:
        try:
            lines, is_cut = _read_end(path, limit)
        except OSError as error:
            error.filename = str(path)  # an error of read(2) has none
            raise
        yield from _split(path, lines, is_cut)


def _read_end(path: Path, limit: int) -> tuple[list[str], bool]:
    """Return the lines at the end of a file, and whether others come before them."""
    splitter = LineSplitter()
    with open_file(path) as file:
        skipped = max(0, file.seek(0, 2) - limit)
        file.seek(skipped)
        content = bytearray()
        while len(content) < limit and (block := file.read(limit - len(content))):
            content += block
    lines = splitter.feed(bytes(content)) + splitter.end()
    return (lines[1:], True) if skipped else (lines, False)


def _split(path: Path, lines: Sequence[str], is_cut: bool) -> Iterator[Stream]:
    prefixed = [(number, part) for number, line in enumerate(lines, 1) for part in _read_parts(line)]
    if (learned := learn_prefix([part for _, part in prefixed])) is not None:
        prefixed = [(number, learned.read(part)) for number, part in prefixed]
    parts = read_columns([part for _, part in prefixed])
    prefixed = [(number, part) for (number, _), part in zip(prefixed, parts, strict=True)]
    offset = _first_rank(part for _, part in prefixed)
    of_file = int(named[1]) if (named := _NAME.search(path.name)) else None
    tasks_launch = any(part.task is not None and _LAUNCHER.search(part.text) for _, part in prefixed)
    streams: dict[tuple[int | None, str | None], Stream] = {}
    for number, (rank, local_rank, host, text, node, task) in prefixed:
        if task is not None and tasks_launch:
            node = node or f"task {task}"
        elif rank is None:
            rank = task
        if rank is None and local_rank is not None:
            rank = local_rank + offset
        rank = of_file if rank is None else rank
        node = node if rank is None else None
        stream = streams.setdefault((rank, node), Stream(path, rank, node, is_cut))
        stream.host = stream.host or host
        stream.lines.append(text)
        stream.numbers.append(number)
    yield from streams.values()


def _read_parts(line: str) -> list[Prefixed]:
    """Return what a line has of each rank; a record may come after a prefix, and its fields may name the rank."""
    if (own := _read_record(line)) is not None:
        return own
    parts = read_prefixes(line)
    if len(parts) == 1 and (inner := _read_record(parts[0].text)) is not None:
        _, local_rank, host, _, pod, task = parts[0]
        return [
            part._replace(
                rank=parts[0].rank if part.rank is None else part.rank,
                local_rank=part.local_rank if part.local_rank is not None else local_rank,
                host=part.host or host,
                pod=part.pod or pod,
                task=part.task if part.task is not None else task,
            )
            for part in inner
        ]
    return parts


def _read_record(line: str) -> list[Prefixed] | None:
    if (record := read_record(line)) is None:
        return None
    parts = [part for one in record.lines for part in read_prefixes(one)]
    return [part._replace(rank=record.rank) if part.rank is None else part for part in parts]


def _first_rank(lines: Iterable[Prefixed]) -> int:
    """Return the global rank of local rank 0, from a line that has both; 0 if there is none."""
    for line in lines:
        if line.rank is not None and line.local_rank is not None:
            return line.rank - line.local_rank
        if "local_rank: " in line.text and (summary := _SUMMARY.search(line.text)):
            return int(summary[1]) - int(summary[2])
    return 0
