"""`fsdpctl metrics`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.complete import complete_run
from fsdpctl.cli.new_file import replace_file
from fsdpctl.cli.options import Json
from fsdpctl.cli.out_path import file_only
from fsdpctl.cli.output import log, print_data, print_json, write
from fsdpctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdpctl.curves.series import RunCurves
    from fsdpctl.runs.evidence import RunFacts

PIPE_COLUMNS = 80


def metrics(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Run ids, prefixes of them, or names of jobs; default: the newest run.",
            metavar="[RUN]...",
            autocompletion=complete_run,
        ),
    ] = None,
    keys: Annotated[
        list[str] | None, typer.Option("--key", "-k", metavar="NAME", help="A number to show; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", callback=file_only, help="Write a picture: .png, .svg or .pdf."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every step as CSV to stdout.")] = False,
    as_json: Json = False,
) -> None:
    """Show the curves of runs: loss, speed and all else that they report, with restarts and saves."""
    if sum((out is not None, as_csv, as_json)) > 1:
        raise UsageError("--out, --csv and --json are three results: give one of them")
    if out is not None:
        from fsdpctl.curves.picture import check_format

        check_format(out)
    found = _find(runs or [])
    if as_csv:
        _print_csv(found, keys or [])
        return
    curves = _read(found, keys or [])
    if as_json:
        print_json(curves)
    elif out is not None:
        _write(curves, out)
    else:
        _draw(curves)


def _find(names: Sequence[str]) -> list[RunFacts]:
    from fsdpctl.runs.evidence import RunFacts
    from fsdpctl.runs.find import find_runs
    from fsdpctl.runs.store import open_record

    return [RunFacts(run, open_record(run)) for run in find_runs(names)]


def _read(runs: Sequence[RunFacts], keys: Sequence[str]) -> list[RunCurves]:
    from fsdpctl.curves.read import read_curves

    _check_keys(runs, keys)
    found = [read_curves(run, keys) for run in runs]
    if not any(run.curves for run in found):
        names = ", ".join(run.run_id for run in found)
        raise UsageError(
            f"no step with a number yet: {names}", hint="docs/own-scripts.md has how a script reports them"
        )
    return found


def _check_keys(runs: Sequence[RunFacts], keys: Sequence[str]) -> list[str]:
    """Return the names of all numbers of these runs. Raise UsageError for one that none of them has."""
    from fsdpctl.curves.read import known_keys

    known = list(dict.fromkeys(key for run in runs for key in known_keys(run.paths)))
    if unknown := [key for key in keys if key not in known]:
        raise UsageError(f"no run has {unknown[0]!r}", hint=f"they have: {', '.join(known) or 'no number yet'}")
    return known


def _draw(curves: Sequence[RunCurves]) -> None:
    from fsdpctl.cli.output import safe
    from fsdpctl.cli.terminal import has_color, room
    from fsdpctl.curves.terminal import draw

    is_terminal = sys.stdout.isatty()
    is_unicode = "utf" in (sys.stdout.encoding or "").lower()
    has_columns = is_terminal or "COLUMNS" in os.environ
    color = has_color(sys.stdout)
    text = draw(curves, room() if has_columns else PIPE_COLUMNS, has_color=color, is_unicode=is_unicode)
    write(text) if color else write(safe(text))


def _write(curves: Sequence[RunCurves], out: Path) -> None:
    from fsdpctl.curves.picture import write_picture

    replace_file(out, lambda path: write_picture(curves, path))
    log(f"written to {out}")


def _print_csv(runs: Sequence[RunFacts], keys: Sequence[str]) -> None:
    import csv
    import io

    from fsdpctl.curves.read import read_rows

    columns = list(keys) or _check_keys(runs, ())
    _check_keys(runs, keys)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", "attempt", "step", "time", *columns])
    for run in runs:
        writer.writerows([run.run_id, *row, *values] for *row, values in read_rows(run.paths, columns))
    print_data(text.getvalue().rstrip("\n"))
