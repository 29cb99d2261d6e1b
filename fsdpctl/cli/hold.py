"""`fsdpctl hold`, `fsdpctl holds` and `fsdpctl release`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.complete import complete_hold
from fsdpctl.cli.options import Json, Profile
from fsdpctl.cli.output import log, print_data, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdpctl.cli.shapes.holds import ListedHold
    from fsdpctl.verbs.holds import HoldStatus

DEFAULT_TIME = "4h"
DEFAULT_IDLE = "30m"


def hold(
    profile: Profile = None,
    nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, help="Number of nodes.")] = 1,
    time_limit: Annotated[str, typer.Option("--time", metavar="TIME", help="How long at most, like 90m.")] = (
        DEFAULT_TIME
    ),
    idle: Annotated[
        str, typer.Option("--idle", metavar="TIME", help="End it after so long without a run.")
    ] = DEFAULT_IDLE,
    name: Annotated[str | None, typer.Option("--name", help="Name of the hold; default: a new one.")] = None,
    as_json: Json = False,
) -> None:
    """Keep nodes between runs: `submit --in HOLD` starts there at once and warm. It ends by itself."""
    from fsdpctl.specs.load import load_profile
    from fsdpctl.specs.search import choose_profile
    from fsdpctl.verbs.holds import take_hold, wait_for_nodes

    time_s, idle_s = _seconds("--time", time_limit), _seconds("--idle", idle)
    status = take_hold(load_profile(choose_profile(profile)[0]), nodes, time_s, idle_s, _checked(name))
    try:
        status = wait_for_nodes(status, log)
    except KeyboardInterrupt:
        log(f"\nhold {status.record.name} still waits for nodes; fsdpctl release {status.record.name} ends that")
        raise
    shown = as_shape(status, time.time())
    if as_json:
        print_json(shown)
        return
    print_data(shown.name)
    log(f"{', '.join(shown.nodes)} of {shown.profile}: ends after {time_limit}, or {idle} without a run{_price(shown)}")
    log(f"hint: fsdpctl submit JOB --in {shown.name} | release {shown.name}")


def holds(as_json: Json = False) -> None:
    """List the nodes that you hold: where, how long, for which run, and what they cost."""
    from fsdpctl.verbs.holds import list_holds

    now = time.time()
    rows = [as_shape(status, now) for status in list_holds()]
    if as_json:
        print_json(rows)
    elif not rows:
        log("no nodes are held")
    else:
        _print(rows)


def release(
    name: Annotated[str, typer.Argument(metavar="HOLD", help="Its name.", autocompletion=complete_hold)],
    as_json: Json = False,
) -> None:
    """Give the nodes of a hold back."""
    from fsdpctl.cli.shapes.holds import Released
    from fsdpctl.verbs.holds import release as give_back

    give_back(name)
    if as_json:
        print_json(Released(name))
    else:
        log(f"hold {name} is released")


def log_idle_holds() -> None:
    """Log what holds cost on which no run is."""
    from fsdpctl.holds import store

    if not store.list_holds():  # as mostly: the rest takes long to import
        return
    from fsdpctl.verbs.holds import list_holds

    now = time.time()
    for shown in (as_shape(status, now) for status in list_holds()):
        if shown.idle_s is not None:
            log(
                f"hold {shown.name} is idle for {_clock(shown.idle_s)}{_price(shown)}; it ends in"
                f" {_clock(shown.ends_in_s)}, or with fsdpctl release {shown.name}"
            )


def as_shape(status: HoldStatus, now: float) -> ListedHold:
    """Return a hold as it is listed."""
    from fsdpctl.cli.shapes.holds import ListedHold
    from fsdpctl.contract.user import user_name
    from fsdpctl.holds.decide import cost, idle_since

    record, held, run_id = status.record, status.held, status.use.run_id
    idle = idle_since(held, status.use) if held is not None else None
    state = "unknown" if status.view.state == "unknown" else "queued" if held is None else "busy" if run_id else "idle"
    return ListedHold(
        name=record.name,
        profile=record.profile,
        backend=record.backend,
        state=state,  # type: ignore[arg-type]
        reason=status.view.reason,
        user=user_name(),
        num_nodes=record.num_nodes,
        nodes=held.nodes if held is not None else (),
        job_id=held.job_id if held is not None else None,
        run_id=run_id,
        since=held.since if held is not None else None,
        ends=status.ends,
        ends_in_s=max(status.ends - now, 0.0) if status.ends is not None else None,
        idle_s=max(now - idle, 0.0) if idle is not None else None,
        cost=cost(record, now - held.since) if held is not None else None,
        cost_per_hour=cost(record, 3600),
    )


def _print(rows: Sequence[ListedHold]) -> None:
    from fsdpctl.cli.status import date

    columns = [
        ("HOLD", [row.name for row in rows]),
        ("PROFILE", [row.profile for row in rows]),
        ("USER", [row.user for row in rows]),
        ("NODES", [", ".join(row.nodes) or str(row.num_nodes) for row in rows]),
        ("JOB_ID", [row.job_id or "" for row in rows]),
        ("SINCE", [date(row.since) if row.since is not None else "-" for row in rows]),
        ("ENDS IN", [_clock(row.ends_in_s) for row in rows]),
        ("IDLE FOR", [_clock(row.idle_s) for row in rows]),
        ("COST", [f"{row.cost:,.2f}" if row.cost is not None else "" for row in rows]),
        ("RUN", [row.run_id or (row.reason if row.state in ("queued", "unknown") else "-") for row in rows]),
    ]
    used = [(title, cells) for title, cells in columns if any(cells)]
    print_table([title for title, _ in used], list(zip(*(cells for _, cells in used), strict=True)))


def _price(shown: ListedHold) -> str:
    if shown.cost_per_hour is None:
        return ""
    so_far = f", {shown.cost:,.2f} so far" if shown.idle_s is not None and shown.cost else ""
    return f", at {shown.cost_per_hour:,.2f} an hour{so_far}"


def _clock(seconds: float | None) -> str:
    from fsdpctl.contract.clock import format_clock

    return format_clock(seconds) if seconds is not None else "-"


def _seconds(option: str, text: str) -> int:
    from fsdpctl.errors import UsageError
    from fsdpctl.schema.types import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}, got {text!r}") from None


def _checked(name: str | None) -> str | None:
    from fsdpctl.errors import UsageError
    from fsdpctl.schema.problems import show
    from fsdpctl.schema.types import NAME

    if name is not None and not NAME.fullmatch(name):
        raise UsageError(f"--name: {show(name)} is no name", hint="letters, digits, '.', '_' and '-'")
    return name
