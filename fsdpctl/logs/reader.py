"""The selected logs of one attempt as one stream of lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.logs.line import Line, LogFile
from fsdpctl.logs.merge import merge
from fsdpctl.logs.sources import LogSelection, find_logs
from fsdpctl.logs.stamp import parse_stamp
from fsdpctl.logs.tail import Tail, start_of_last

_CONTEXT = 200
"""Lines read before the requested ones to find the stamp that they inherit: more than a traceback has."""


class AttemptReader:
    """Reads the logs and polls for new lines; files that appear later are read from their start."""

    def __init__(self, attempt: AttemptPaths, selection: LogSelection) -> None:
        self.attempt = attempt
        self.files: list[LogFile] = []
        self._selection = selection
        self._streams: dict[LogFile, _Stream] = {}

    def poll(self, *, final: bool = False) -> Iterator[Line]:
        """Yield the lines since the last poll, merged; with `final` also last lines without a newline."""
        self.files = find_logs(self.attempt, self._selection)
        # A deleted log is forgotten: if it appears again, it is another file.
        self._streams = {file: self._streams.get(file) or _Stream(file) for file in self.files}
        yield from merge(stream.lines(final=final) for stream in self._streams.values())

    def last(self, count: int, *, final: bool = False) -> Iterator[Line]:
        """Yield the last `count` lines of each file, merged. Call it first; `poll` continues from there."""
        self.files = find_logs(self.attempt, self._selection)
        windows = []
        for file in self.files:
            self._streams[file] = stream = _Stream(file, start_of_last(file.path, count + _CONTEXT))
            windows.append(stream.window(count, final=final))
        yield from merge(windows)


class _Stream:
    """The lines of one file, with their own or inherited stamps."""

    def __init__(self, file: LogFile, start: int = 0) -> None:
        self._file = file
        self._tail = Tail(file.path, start)
        self._stamp: float | None = None

    def lines(self, *, final: bool) -> Iterator[Line]:
        file = self._file
        for text in self._tail.poll(final=final):
            stamp = parse_stamp(text, self._tail.mtime)
            if stamp is not None:
                self._stamp = stamp
            yield Line(file.node_rank, file.source, file.rank, self._stamp, text)

    def window(self, count: int, *, final: bool) -> Iterable[Line]:
        lines = deque(self.lines(final=final), maxlen=count)
        if lines and lines[-1].stamp is None:
            # A rank that only printed a traceback, at the file's last change. Without that stamp these lines
            # would come before all others, and a view of the last lines would not show them.
            return [line._replace(stamp=self._tail.mtime) for line in lines]
        return lines
