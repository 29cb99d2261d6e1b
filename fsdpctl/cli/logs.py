"""`fsdpctl logs`."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.log_errors import print_errors, print_root_cause
from fsdpctl.cli.options import Run
from fsdpctl.cli.output import log, print_data, write
from fsdpctl.errors import FsdpctlError, UsageError

if TYPE_CHECKING:
    from fsdpctl.contract.paths import AttemptPaths, RunPaths
    from fsdpctl.logs.line import Line
    from fsdpctl.logs.reader import AttemptReader
    from fsdpctl.logs.sources import LogSelection

_POLL_S = 0.2
_BATCH = 4096
"""Lines that are folded and printed at a time: equal lines of several ranks are at most this far apart."""


def logs(
    run: Run = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue until the run ends.")] = False,
    rank: Annotated[list[int] | None, typer.Option(min=0, help="Only this global rank; may be repeated.")] = None,
    node: Annotated[list[int] | None, typer.Option(min=0, help="Only this node; may be repeated.")] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="This attempt; default: the newest.")] = None,
    lines: Annotated[str, typer.Option("-n", "--lines", help="Number of newest lines, or `all`.")] = "100",
    agent: Annotated[bool, typer.Option("--agent", help="Also the logs of the node agents and of torchrun.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print lines unescaped and without prefix; not to a terminal.")
    ] = False,
    errors: Annotated[
        bool, typer.Option("--errors", help="Print only which rank or node failed first, and why.")
    ] = False,
) -> None:
    """Show the lines of all ranks and the supervisor's events by time; after a failure, the first error first."""
    from fsdpctl.logs.sources import LogSelection
    from fsdpctl.runs.find import check_ranks, find_attempt, find_run

    count = _parse_count(lines)
    if raw and sys.stdout.isatty():
        raise UsageError("--raw would send the control characters in logs to this terminal", hint="redirect the output")
    paths = find_run(run)
    chosen = find_attempt(paths, attempt)
    if errors:
        print_errors(paths, chosen, is_newest=attempt is None)
        return
    selection = LogSelection(frozenset(rank or ()), frozenset(node or ()), agent, supervisor=not (rank or node))
    check_ranks(paths, chosen, selection.ranks, selection.nodes)
    if follow:
        _follow(paths, chosen, selection, count, raw=raw, stay=attempt is not None)
    else:
        _print_once(chosen, selection, count, raw=raw)


def _parse_count(value: str) -> int | None:
    """Return the number of lines; None for all."""
    if value == "all":
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise UsageError(f"-n takes a number of lines or `all`, got {value!r}")
    return int(value)


def _print_once(attempt: AttemptPaths, selection: LogSelection, count: int | None, *, raw: bool) -> None:
    from fsdpctl.logs.reader import AttemptReader

    if not raw:
        print_root_cause(attempt)
    reader = AttemptReader(attempt, selection)
    _print_backlog(reader, count, raw=raw, final=True)
    if not reader.files:
        log(f"attempt {attempt.number} has no such logs (yet)")


def _follow(
    run: RunPaths, attempt: AttemptPaths, selection: LogSelection, count: int | None, *, raw: bool, stay: bool
) -> None:
    """Print what arrives until the run ends, also of later attempts unless `stay` is set."""
    from fsdpctl.logs.reader import AttemptReader

    watch = _Watch(run)
    reader = AttemptReader(attempt, selection)
    _print_backlog(reader, count, raw=raw, final=False)
    while True:
        # Checked before the poll, which then reads all that was written until then.
        ended = not watch.is_alive()
        later = next((a for a in run.attempts() if a.number > reader.attempt.number), None)
        final = ended or later is not None
        _print_lines(reader.poll(final=final), reader, raw=raw)
        if final and not raw:
            print_root_cause(reader.attempt)
        if later is not None and not stay:
            log(f"--- attempt {later.number} ---")
            reader = AttemptReader(later, selection)
        elif final:
            return
        else:
            time.sleep(_POLL_S)


class _Watch:
    """Checks whether a run is alive, at growing intervals, as it may ask a scheduler. Logs changes of the state."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run
        self._pauses_s = itertools.chain((2.0, 4.0, 8.0), itertools.repeat(10.0))
        self._next_s = 0.0
        self._reported = ""

    def is_alive(self) -> bool:
        """Return whether the run is alive, and log a changed state; between two checks it counts as alive."""
        from fsdpctl.contract.codec import CodecError
        from fsdpctl.verbs.status import read_status

        if time.monotonic() < self._next_s:
            return True
        try:
            status = read_status(self._run)
        except (FsdpctlError, CodecError, OSError) as error:
            alive, state = True, f"the state of the run is unknown for now: {error}"
        else:
            alive, state = status.state.is_alive, f"{status.state}: {status.reason}"
        if state != self._reported:
            log(state)
            self._reported = state
        self._next_s = time.monotonic() + next(self._pauses_s)
        return alive


def _print_backlog(reader: AttemptReader, count: int | None, *, raw: bool, final: bool) -> None:
    if count is None:
        _print_lines(reader.poll(final=final), reader, raw=raw)
    else:
        _print_rows(_rows(list(reader.last(count, final=final)), reader, raw=raw)[-count:], raw=raw)


def _print_lines(lines: Iterable[Line], reader: AttemptReader, *, raw: bool) -> None:
    lines = iter(lines)
    while batch := list(itertools.islice(lines, _BATCH)):
        _print_rows(_rows(batch, reader, raw=raw), raw=raw)


def _rows(lines: list[Line], reader: AttemptReader, *, raw: bool) -> list[str]:
    from fsdpctl.logs.collapse import collapse
    from fsdpctl.logs.prefix import prefixed, widths

    if raw:
        return [line.text for line in lines]
    columns = widths(reader.files)
    return [prefixed(group, columns) for group in collapse(lines)]


def _print_rows(rows: list[str], *, raw: bool) -> None:
    if rows:
        # One write for many lines; `print_data` does not escape newlines, and no line contains one.
        (write if raw else print_data)("\n".join(rows))
