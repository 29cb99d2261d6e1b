"""The selected logs of one attempt as one stream of lines."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.logs.collapse import begin_of_slot
from fsdpctl.logs.line import Line, LogFile
from fsdpctl.logs.merge import merge
from fsdpctl.logs.sources import LogSelection, find_logs
from fsdpctl.logs.stream import HOLD_S, Stream
from fsdpctl.logs.tail import start_of_last

_CONTEXT = 200
"""Lines read before the requested ones to find the stamp that they inherit: more than a traceback has."""


class AttemptReader:
    """Reads the logs and polls for new lines; files that appear later are read from their start.

    Lines of the last moment are held back until `final`, so that they come in the order in which they come later.
    """

    def __init__(self, attempt: AttemptPaths, selection: LogSelection) -> None:
        self.attempt = attempt
        self.files: list[LogFile] = []
        self._selection = selection
        self._streams: dict[LogFile, Stream] = {}

    def poll(self, *, final: bool = False) -> Iterator[Line]:
        """Yield the lines since the last poll, merged; with `final` also last lines without a newline."""
        self.files = find_logs(self.attempt, self._selection)
        # A deleted log is forgotten: if it appears again, it is another file.
        self._streams = {file: self._streams.get(file) or Stream(file) for file in self.files}
        until = begin_of_slot(time.time() - HOLD_S)
        yield from merge(stream.lines(until=until, final=final) for stream in self._streams.values())

    def last(self, count: int, *, final: bool = False) -> Iterator[Line]:
        """Yield the last `count` lines of each file, merged. Call it first; `poll` continues from there."""
        self.files = find_logs(self.attempt, self._selection)
        until = begin_of_slot(time.time() - HOLD_S)
        windows = []
        for file in self.files:
            self._streams[file] = stream = Stream(file, start_of_last(file.path, count + _CONTEXT))
            windows.append(stream.window(count, until=until, final=final))
        yield from merge(windows)
