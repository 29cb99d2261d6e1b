"""What ended one rank: its category, the rule that fits, and the text that it left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fsdpctl.contract.first_failure import headline
from fsdpctl.contract.records import Resources
from fsdpctl.explain.categories import Category, Role
from fsdpctl.explain.choose import choose_end
from fsdpctl.explain.evidence import RankEvidence
from fsdpctl.explain.match import Match, match_text
from fsdpctl.explain.rule import Strength
from fsdpctl.explain.structured import GENERIC, of_error, of_exit
from fsdpctl.explain.survived import fatal_matches
from fsdpctl.node.agent.exit_status import describe_code


@dataclass(frozen=True)
class RankFailureKind:
    """What ended a rank; `match` is of the text that it left, if a rule fits."""

    category: Category
    message: str = ""
    text: str = ""  # with the traceback
    match: Match | None = None
    is_recorded: bool = True  # by the rank itself, and not only in its log


def describe_rank(rank: RankEvidence, resources: Resources | None) -> RankFailureKind:
    """Return what ended a rank: by its own record, else by its exit code and the end of its log."""
    error = rank.error
    if error is not None and error.kinds:
        text = error.traceback or error.message
        match = choose_end(match_text(text.splitlines()))
        return RankFailureKind(_refine(of_error(error), match), headline(error), text, match)
    match = end_of_log(rank.tail)
    message = headline(error) if error is not None else ""
    if rank.exit_code is None:
        category = of_error(error) if error is not None else Category.UNKNOWN
        text = error.traceback if error is not None else ""
    else:
        category, message = of_exit(rank.exit_code, resources), message or f"ended with {describe_code(rank.exit_code)}"
        text = "\n".join(rank.tail)
    return RankFailureKind(_refine(category, match), message, text, match, is_recorded=False)


def describe_cascade(rank: RankEvidence) -> RankFailureKind:
    """Return what ended a rank that failed because of another one: by its record only, its log is not read."""
    error = rank.error
    if error is None:
        return RankFailureKind(Category.UNKNOWN, f"ended with {describe_code(rank.exit_code or 0)}")
    match = choose_end(match_text((error.traceback or error.message).splitlines()))
    return RankFailureKind(_refine(of_error(error), match), headline(error), error.traceback, match)


def is_lost_peer(rank: RankEvidence) -> bool:
    """Return whether a library ended a rank because it had lost another one, by the end of its log."""
    match = end_of_log(rank.tail)
    return match is not None and match.rule.role is Role.CASCADE


def end_of_log(lines: Sequence[str]) -> Match | None:
    """Return the match that explains the end of a process, by the last lines of its log."""
    return choose_end(fatal_matches(match_text(lines), lines))


def _refine(category: Category, match: Match | None) -> Category:
    """Return the category of the rule; a generic rule, or a mere hint, does not overrule what is known."""
    if match is None or (match.rule.strength is not Strength.CERTAIN and category not in GENERIC):
        return category
    return match.rule.category
