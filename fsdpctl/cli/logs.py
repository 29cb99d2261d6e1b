"""`fsdpctl logs`."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.log_errors import hint_at_explain, print_errors, print_errors_json, print_root_cause
from fsdpctl.cli.log_printer import JsonPrinter, Printer
from fsdpctl.cli.options import Run
from fsdpctl.cli.output import log
from fsdpctl.errors import FsdpctlError, UsageError

if TYPE_CHECKING:
    from fsdpctl.contract.paths import AttemptPaths, RunPaths
    from fsdpctl.logs.sources import LogSelection

_POLL_S = 0.2


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
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Begin each line with the time at which it was written.")
    ] = False,
    errors: Annotated[
        bool, typer.Option("--errors", help="Print only which rank or node failed first, and why.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line to stdout; with --errors a single one.")
    ] = False,
) -> None:
    """Show the lines of all ranks and the supervisor's events by time; after a failure, the first error first."""
    from fsdpctl.logs.sources import LogSelection, find_outside
    from fsdpctl.runs.find import check_ranks, find_attempt, find_run

    count = _parse_count(lines)
    if raw and sys.stdout.isatty():
        raise UsageError("--raw would send the control characters in logs to this terminal", hint="redirect the output")
    if raw and (timestamps or as_json):
        raise UsageError("--raw prints lines as they are: not with --timestamps or --json")
    paths = find_run(run)
    chosen = find_attempt(paths, attempt)
    if errors:
        if as_json:
            print_errors_json(paths, chosen)
        else:
            print_errors(paths, chosen, is_newest=attempt is None)
        return
    selection = LogSelection(frozenset(rank or ()), frozenset(node or ()), agent, supervisor=not (rank or node))
    check_ranks(paths, chosen, selection.ranks, selection.nodes)
    for file in find_outside(chosen, selection):
        log(f"not read, because it is a link to a file outside of the run: {file.path}")
    printer = JsonPrinter() if as_json else Printer(raw=raw, timestamps=timestamps)
    if follow:
        _follow(paths, chosen, selection, count, printer, stay=attempt is not None)
    else:
        _print_once(chosen, selection, count, printer)


def _parse_count(value: str) -> int | None:
    """Return the number of lines; None for all."""
    if value == "all":
        return None
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise UsageError(f"-n takes a number of lines or `all`, got {value!r}")
    return int(value)


def _print_once(attempt: AttemptPaths, selection: LogSelection, count: int | None, printer: Printer) -> None:
    from fsdpctl.logs.reader import AttemptReader

    if not printer.is_bare:
        print_root_cause(attempt)
    reader = AttemptReader(attempt, selection)
    printer.print_backlog(reader, count, final=True)
    if not reader.files:
        log(f"attempt {attempt.number} has no such logs (yet)")


def _follow(
    run: RunPaths, attempt: AttemptPaths, selection: LogSelection, count: int | None, printer: Printer, *, stay: bool
) -> None:
    """Print what arrives until the run ends, also of later attempts unless `stay` is set."""
    from fsdpctl.logs.reader import AttemptReader

    reader = AttemptReader(attempt, selection)
    watch = _Watch(run, lambda state: printer.print_state(state, reader))
    printer.print_backlog(reader, count, final=False)
    while True:
        # Checked before the poll, which then reads all that was written until then.
        ended = not watch.is_alive()
        later = next((a for a in run.attempts() if a.number > reader.attempt.number), None)
        final = ended or later is not None
        printer.print_lines(reader.poll(final=final), reader)
        if final and not printer.is_bare and print_root_cause(reader.attempt) and later is None:
            hint_at_explain(run)
        if later is not None and not stay:
            printer.print_state(f"--- attempt {later.number} ---", reader)
            reader = AttemptReader(later, selection)
        elif final:
            return
        else:
            time.sleep(_POLL_S)


class _Watch:
    """Checks whether a run is alive, at growing intervals, as it may ask a scheduler. Reports changes of the state."""

    def __init__(self, run: RunPaths, report: Callable[[str], None]) -> None:
        self._run, self._report = run, report
        self._pauses_s = itertools.chain((2.0, 4.0, 8.0), itertools.repeat(10.0))
        self._next_s = 0.0
        self._reported = ""

    def is_alive(self) -> bool:
        """Return whether the run is alive, and report a changed state; between two checks it counts as alive."""
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
            self._report(state)
            self._reported = state
        self._next_s = time.monotonic() + next(self._pauses_s)
        return alive
