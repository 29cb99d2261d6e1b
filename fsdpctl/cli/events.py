"""`fsdpctl events`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.options import Run
from fsdpctl.cli.output import log, print_beside, print_data, print_json_line, print_table
from fsdpctl.contract.clock import format_time

if TYPE_CHECKING:
    from fsdpctl.contract.events import Event
    from fsdpctl.ledger.account import Ledger

WHO_WIDTH, KIND_WIDTH = 10, 16


def events(
    run: Run = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue until the run ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line to stdout.")] = False,
) -> None:
    """Show the history of a run: what happened, when, and who did it."""
    from fsdpctl.contract.events import to_json
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.events import follow_events, read_events
    from fsdpctl.verbs.ledger import find_ledger
    from fsdpctl.verbs.status import read_status

    paths = find_run(run)
    try:
        for event in follow_events(paths) if follow else read_events(paths):
            if as_json:
                print_json_line(to_json(event))
            else:
                print_beside(_columns(event), event.text)
    except KeyboardInterrupt:
        log(f"\ndetached; {paths.root.name} continues")
        raise
    if (ledger := find_ledger(paths, read_status(paths))) is not None:
        _print_ledger(ledger, as_json)


def _print_ledger(ledger: Ledger, as_json: bool) -> None:
    from fsdpctl.cli.ledger_text import HEADER, ledger_values, short_row, table_rows
    from fsdpctl.contract.events import Actor, Event, EventKind, to_json

    if as_json:
        end = round(ledger.intervals[-1].end, 3)
        text = ": ".join(short_row(ledger))
        print_json_line(to_json(Event(EventKind.LEDGER, end, Actor.SUPERVISOR, text, **ledger_values(ledger))))
    else:
        print_data("")
        print_table(HEADER, table_rows(ledger))


def _columns(event: Event) -> str:
    """Return time, attempt, who and what, each in a column of fixed width: later lines have the same."""
    clock = format_time(event.time)
    kind = event.kind.replace("_", " ")
    return f"{clock}  {event.attempt or '-':>3}  {_name(event):<{WHO_WIDTH}}  {kind:<{KIND_WIDTH}}  "


def _name(event: Event) -> str:
    """Return who it was: of nodes and ranks also which one."""
    number = {"node": event.node, "rank": event.rank}.get(event.who)
    return f"{event.who} {number}" if number is not None else str(event.who)
