"""`fsdpctl compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsdpctl.cli.complete import complete_run
from fsdpctl.cli.options import Json
from fsdpctl.cli.output import log, print_data, print_json, print_rows, print_table
from fsdpctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdpctl.comparison.result import ChangedFile, Comparison, Difference

SHOWN_FILES = 20
_HELP = "Run id, a prefix of it, or a job's name."


def compare(
    a: Annotated[str, typer.Argument(help=_HELP, autocompletion=complete_run)],
    b: Annotated[str, typer.Argument(help=_HELP, autocompletion=complete_run)],
    diff: Annotated[
        bool, typer.Option("--diff", help="Print the patch between the code of both, and no more.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what differs between two runs: configuration, code, versions, hosts, speed and loss."""
    from fsdpctl.comparison.code import compare_code, diff_code
    from fsdpctl.comparison.compare import compare_runs
    from fsdpctl.runs.evidence import RunFacts
    from fsdpctl.runs.find import find_run
    from fsdpctl.runs.store import open_record

    if diff and as_json:
        raise UsageError("--diff prints a patch, and no JSON: give one of them")
    first, second = find_run(a), find_run(b)
    if diff:
        print_data(diff_code(first, second, compare_code(first, second)).rstrip("\n"))
        return
    found = compare_runs(RunFacts(first, open_record(first)), RunFacts(second, open_record(second)))
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: Comparison) -> None:
    print_table(("", found.a, found.b), [_row(one) for one in found.results])
    others = [*found.versions, *([found.hosts] if found.hosts is not None else [])]
    for title, rows in (("configuration", found.configuration), ("versions and hosts", others)):
        print_data(f"\n{title}{'' if rows else ': the same'}")
        if rows:
            print_table(("", found.a, found.b), [_row(one) for one in rows])
    print_data(f"\ncode{'' if found.code else ': the same'}")
    if found.code:
        print_rows(_file_rows(found.code))
        log(f"hint: fsdpctl compare {found.a} {found.b} --diff")
    if found.loss:
        print_data("\nloss at the same steps")
        losses = [(f"{at.step}", f"{at.a:.4f}", f"{at.b:.4f}", f"{at.b - at.a:+.4f}") for at in found.loss]
        print_table(("step", found.a, found.b, "difference"), losses)


def _file_rows(files: Sequence[ChangedFile]) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = [(file.change, file.path) for file in files[:SHOWN_FILES]]
    return rows if len(files) <= SHOWN_FILES else [*rows, ("", f"and {len(files) - SHOWN_FILES} more")]


def _row(one: Difference) -> tuple[str, str, str]:
    return one.key, _text(one.a), _text(one.b)


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
        case list():
            return ", ".join(map(_text, value)) or "none"
        case dict():
            return ", ".join(f"{key}: {_text(inner)}" for key, inner in value.items()) or "none"
        case _:
            return str(value)
