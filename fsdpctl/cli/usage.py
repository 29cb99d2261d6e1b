"""`fsdpctl usage`: GPU hours, cost and energy of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.options import Json
from fsdpctl.cli.output import log, print_json, print_table
from fsdpctl.cli.status import date

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdpctl.cli.shapes.usage import ShownUsage, UsedAmount
    from fsdpctl.verbs.usage import Usage


def usage(
    since: Annotated[
        str, typer.Option(metavar="WHEN", help="Only what was used since then: 30d, 12h, 2026-11-28.")
    ] = "30d",
    root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Runs of all users in this directory, a `runs_root`; default: your runs."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show GPU hours, cost and energy of runs, and under Slurm the CPU efficiency of their jobs."""
    from fsdpctl.cli.since import parse_since
    from fsdpctl.contract.codec import encode
    from fsdpctl.verbs.usage import read_usage

    earliest = parse_since(since)
    found = read_usage(earliest, root)
    shown = _as_shape(found, earliest)
    if as_json:
        print_json(encode(shown))
    elif not shown.runs:
        log(f"no attempt of a run since {date(earliest)}; --since takes an earlier time")
    else:
        _print(shown)
    for line in found.unread:
        log(f"not counted: {line}")


def _as_shape(found: Usage, since: float) -> ShownUsage:
    from fsdpctl.cli.shapes.usage import ShownUsage, UsedAmount, UsedRun

    runs = tuple(
        UsedRun(
            **vars(run.amount),
            run_id=run.run_id,
            job=run.job,
            user=run.user,
            attempts=run.attempts,
            slurm_hours=run.slurm.elapsed_s / 3600 if run.slurm is not None else None,
            cpu_efficiency=run.slurm.cpu_efficiency if run.slurm is not None else None,
        )
        for run in found.runs
    )
    users = {user: UsedAmount(**vars(amount)) for user, amount in found.users.items()}
    return ShownUsage(since, runs, users, UsedAmount(**vars(found.total)))


def _print(shown: ShownUsage) -> None:
    """Print a row for each run, then one for each of several users, then the sum; columns that no row fills are left
    out."""
    sums = [*(shown.users.items() if len(shown.users) > 1 else ()), ("total", shown.total)]
    amounts: list[UsedAmount] = [*shown.runs, *(amount for _, amount in sums)]
    columns = [
        ("HOURS", [_hours(one.hours) for one in amounts]),
        ("GPU HOURS", [_hours(one.gpu_hours) for one in amounts]),
        ("PROCESS HOURS", [_hours(one.process_hours) for one in amounts]),
        ("GPU kWh", [f"{one.energy_kwh:,.2f}" if one.energy_kwh is not None else "" for one in amounts]),
        ("COST", [f"{one.cost:,.2f}" if one.cost is not None else "" for one in amounts]),
        ("SLURM HOURS", [*(_hours(run.slurm_hours) for run in shown.runs), *("" for _ in sums)]),
        ("CPU", [*(_share(run.cpu_efficiency) for run in shown.runs), *("" for _ in sums)]),
    ]
    if all(one.gpu_hours == one.process_hours for one in amounts):
        columns = [column for column in columns if column[0] != "PROCESS HOURS"]
    used = [column for column in columns if any(column[1])]
    names = [*(run.run_id for run in shown.runs), *(name for name, _ in sums)]
    users = [*(run.user for run in shown.runs), *("" for _ in sums)]
    header = ["RUN", *(["USER"] if len(shown.users) > 1 else []), *(name for name, _ in used)]
    rows = [
        [name, *([user] if len(shown.users) > 1 else []), *(cells[row] for _, cells in used)]
        for row, (name, user) in enumerate(zip(names, users, strict=True))
    ]
    print_table(header, _right_aligned(header, rows, first=len(header) - len(used)))


def _right_aligned(header: Sequence[str], rows: Sequence[Sequence[str]], first: int) -> list[list[str]]:
    """Return the rows with the columns from `first` on aligned for numbers."""
    widths = [max(len(header[at]), *(len(row[at]) for row in rows)) for at in range(len(header))]
    return [[cell.rjust(widths[at]) if at >= first else cell for at, cell in enumerate(row)] for row in rows]


def _hours(hours: float | None) -> str:
    return f"{hours:,.2f}" if hours is not None else ""


def _share(share: float | None) -> str:
    return f"{share:.0%}" if share is not None else ""
