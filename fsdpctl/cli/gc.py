"""`fsdpctl gc`: remove old runs and checkpoints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.options import Json
from fsdpctl.cli.output import log, print_json, print_table
from fsdpctl.contract import CliExit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdpctl.cli.shapes.gc import CollectedRun
    from fsdpctl.verbs.gc import Done
    from fsdpctl.verbs.gc_choice import Choice, Limits

DEFAULT_AGE = "30d"


def gc(
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help=f"Only runs that ended longer ago, like 12h; default: {DEFAULT_AGE}, without --keep and --max-size.",
        ),
    ] = None,
    keep: Annotated[int | None, typer.Option(min=0, help="Leave this many newest runs of each job.")] = None,
    max_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Remove the oldest only until all runs together fit, like 500G or 2T."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove; without it, only show what would be removed.")] = (
        False
    ),
    as_json: Json = False,
) -> None:
    """Remove old runs that have ended, and older checkpoints of others. Without --yes it only shows what it would do.

    Never removed: a run that is alive or pinned or that another one needs, the newest complete checkpoint of a run, and
    a run without checkpoints in which your own script has left files.
    """
    from fsdpctl.verbs.gc import act, plan_gc
    from fsdpctl.verbs.gc_choice import Action

    choices = plan_gc(_limits(older_than, keep, max_size))
    chosen = [choice for choice in choices if choice.action is not Action.KEEP]
    done = list(act(chosen)) if yes else None
    rows = _as_shapes(chosen, done)
    kept = [choice for choice in choices if choice.action is Action.KEEP]
    if as_json:
        _print_json(rows, kept, dry_run=not yes)
    else:
        _print(rows, kept, dry_run=not yes)
    if any(row.problem for row in rows):
        raise typer.Exit(CliExit.FAILED)


def _limits(older_than: str | None, keep: int | None, max_size: str | None) -> Limits:
    from fsdpctl.errors import UsageError
    from fsdpctl.schema.types import parse_duration
    from fsdpctl.verbs.gc_choice import Limits

    age = older_than if older_than is not None or keep is not None or max_size is not None else DEFAULT_AGE
    try:
        older_than_s = parse_duration(age) if age is not None else None
    except ValueError as error:
        hint = "a limit is written like 30d; `--keep 0` is for all runs that have ended"
        raise UsageError(f"--older-than: {error}, got {age!r}", hint=hint) from None
    return Limits(older_than_s, keep, _parse_size(max_size) if max_size is not None else None)


def _parse_size(text: str) -> int:
    """Return the bytes of a size like 500G. Raise UsageError."""
    import re

    from fsdpctl.errors import UsageError

    if (found := re.fullmatch(r"([0-9]{1,9})([KMGT])i?B?", text.strip(), re.IGNORECASE)) is None:
        raise UsageError(f"--max-size takes a size like 500G or 2T, got {text!r:.40}")
    return int(found[1]) << (10 + 10 * "KMGT".index(found[2].upper()))


def _as_shapes(chosen: Sequence[Choice], done: Sequence[Done] | None) -> list[CollectedRun]:
    from fsdpctl.cli.shapes.gc import CollectedRun
    from fsdpctl.verbs.gc import Done

    return [
        CollectedRun(
            run_id=one.choice.run.run_id,
            action="remove" if one.choice.action == "remove" else "prune",
            bytes=one.choice.freed,
            ended=one.choice.run.ended,
            checkpoints=one.checkpoints,
            problem=one.problem or None,
        )
        for one in (done if done is not None else map(Done, chosen))
    ]


def _print_json(rows: Sequence[CollectedRun], kept: Sequence[Choice], *, dry_run: bool) -> None:
    from fsdpctl.cli.shapes.gc import Collected
    from fsdpctl.contract.codec import encode

    reasons = {choice.run.run_id: choice.reason for choice in kept}
    print_json(encode(Collected(dry_run, tuple(rows), reasons)))


def _print(rows: Sequence[CollectedRun], kept: Sequence[Choice], *, dry_run: bool) -> None:
    from fsdpctl.cli.status import date

    what = {"remove": "run directory", "prune": "all but the newest checkpoint"}
    if rows:
        print_table(
            ("RUN", "SIZE", "ENDED", "REMOVED" if not dry_run else "TO REMOVE"),
            [
                (
                    row.run_id,
                    _size(row.bytes),
                    date(row.ended),
                    f"nothing: {row.problem}" if row.problem else what[row.action],
                )
                for row in rows
            ],
        )
    for reason, count in Counter(choice.reason for choice in kept).items():
        log(f"{count} run{'s' if count > 1 else ''} left: {reason}")
    freed = _size(sum(row.bytes for row in rows if not row.problem))
    if not rows:
        log("nothing to remove")
    elif dry_run:
        log(f"{freed} in all; nothing was removed: --yes removes it")
    else:
        log(f"{freed} removed")


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.2f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.2f} MB"
