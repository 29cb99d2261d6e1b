"""`fsdpctl stacks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.options import Json, Run
from fsdpctl.cli.output import log, print_data, print_json
from fsdpctl.contract import CliExit

if TYPE_CHECKING:
    from fsdpctl.verbs.stacks import RankReply


def stacks(
    run: Run = None,
    rank: Annotated[list[int] | None, typer.Option(min=0, help="Only this global rank; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Show what every rank of a running run does now: the Python stacks of all its threads."""
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.stacks import RunStacks, read_stacks

    paths = find_run(run)
    replies = read_stacks(paths, frozenset(rank or ()))
    if as_json:
        print_json(RunStacks(paths.root.name, tuple(replies)))
    else:
        _print_folded(replies)
    if any(reply.problem for reply in replies):
        raise typer.Exit(CliExit.FAILED)


def _print_folded(replies: list[RankReply]) -> None:
    """Print equal stacks once, those of most ranks first: what differs comes last. Then who wrote none."""
    from fsdpctl.logs.ranges import fold_ranks
    from fsdpctl.logs.stack_text import describe_threads

    by_text: dict[str, list[int]] = {}
    by_problem: dict[str, list[int]] = {}
    for reply in replies:
        places = by_problem if reply.problem else by_text
        places.setdefault(reply.problem or describe_threads(reply.threads), []).append(reply.rank)
    for text, ranks in sorted(by_text.items(), key=lambda item: -len(item[1])):
        count = f" ({len(ranks)})" if len(ranks) > 1 else ""
        print_data(f"{fold_ranks(ranks)}{count}\n{text}\n")
    for problem, ranks in by_problem.items():
        log(f"{fold_ranks(ranks)}: {problem}")
