"""Print the lines of logs in columns: time, node and writer; or as JSON. Changes of the run's state are lines, too."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from fsdpctl.cli.output import log, print_data, write

if TYPE_CHECKING:
    from fsdpctl.logs.line import Line
    from fsdpctl.logs.reader import AttemptReader


_BATCH = 4096


@dataclass(frozen=True)
class Printer:
    """How lines are printed: as they are, or in columns, with the time or without."""

    raw: bool
    timestamps: bool

    @property
    def is_bare(self) -> bool:
        """Whether nothing but the lines is printed to stdout."""
        return self.raw

    def print_backlog(self, reader: AttemptReader, count: int | None, *, final: bool) -> None:
        """Print the newest `count` rows, or all that is there."""
        if count is None:
            self.print_lines(reader.poll(final=final), reader)
        elif count:
            self._print(list(chain.from_iterable(self._rows(reader.last(count, final=final), reader)))[-count:])

    def print_lines(self, lines: Iterable[Line], reader: AttemptReader) -> None:
        """Print lines, those of one slot of time at once."""
        for rows in self._rows(lines, reader):
            self._print(rows)

    def print_state(self, state: str, reader: AttemptReader) -> None:
        """Log a change of the run's state in the columns of the lines."""
        from fsdpctl.logs.line import Line

        line = Line(None, "state", None, time.time(), "; ".join(state.splitlines()))
        log(state if self.raw else self._columns([[line]], reader)[0])

    def _rows(self, lines: Iterable[Line], reader: AttemptReader) -> Iterator[list[str]]:
        from fsdpctl.logs.collapse import collapse_slots

        if not self.raw:
            yield from (self._columns(groups, reader) for groups in collapse_slots(lines))
            return
        lines = iter(lines)
        while batch := list(islice(lines, _BATCH)):
            yield [line.text for line in batch]

    def _columns(self, groups: Iterable[list[Line]], reader: AttemptReader) -> list[str]:
        from fsdpctl.logs.prefix import clock, prefixed, widths

        columns = widths(reader.files)
        return [(clock(group[0]) if self.timestamps else "") + prefixed(group, columns) for group in groups]

    def _print(self, rows: list[str]) -> None:
        if rows:
            # One write for many lines; `print_data` does not escape newlines, and no line contains one.
            (write if self.raw else print_data)("\n".join(rows))


class JsonPrinter(Printer):
    """Prints each line as one object, also those that are equal on several ranks."""

    def __init__(self) -> None:
        super().__init__(raw=False, timestamps=False)

    @property
    def is_bare(self) -> bool:
        return True

    def print_state(self, state: str, reader: AttemptReader) -> None:
        """Print a change of the run's state as a line of its own."""
        from fsdpctl.logs.line import Line

        self._print([_to_json(Line(None, "state", None, time.time(), state), reader)])

    def _rows(self, lines: Iterable[Line], reader: AttemptReader) -> Iterator[list[str]]:
        lines = iter(lines)
        while batch := [_to_json(line, reader) for line in islice(lines, _BATCH)]:
            yield batch

    def _print(self, rows: list[str]) -> None:
        if rows:
            write("\n".join(rows))


def _to_json(line: Line, reader: AttemptReader) -> str:
    return json.dumps(
        {
            "time": line.stamp,
            "attempt": reader.attempt.number,
            "source": line.source,
            "node": line.node_rank,
            "rank": line.rank,
            "text": line.text,
        }
    )
