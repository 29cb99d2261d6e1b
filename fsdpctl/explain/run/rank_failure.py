"""What ended one rank: its category, the rule that fits, and the text that it left."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from fsdpctl.contract import RankFailure
from fsdpctl.contract.first_failure import headline, names_lost_peer
from fsdpctl.contract.records import Resources
from fsdpctl.explain.categories import Category
from fsdpctl.explain.explanation import Confidence
from fsdpctl.explain.logs.choose import choose_end
from fsdpctl.explain.logs.match import Match, match_text
from fsdpctl.explain.logs.survived import fatal_matches
from fsdpctl.explain.rule import Strength
from fsdpctl.explain.run.evidence import RankEvidence
from fsdpctl.explain.run.structured import GENERIC, of_error, of_exit
from fsdpctl.node.agent.exit_status import describe_code


@dataclass(frozen=True)
class RankFailureKind:
    """What ended a rank; `match` is of the text that it left, if a rule fits."""

    category: Category
    message: str = ""
    text: str = ""  # with the traceback
    match: Match | None = None
    confidence: Confidence = Confidence.CERTAIN
    rule: str = ""  # the id of the rule for it, where no text decides


def describe_rank(rank: RankEvidence, resources: Resources | None) -> RankFailureKind:
    """Return what ended a rank: by its own record, else by its exit code and the end of its log."""
    error = rank.error
    if error is not None and error.kinds:
        text = error.traceback or error.message
        has_left = error.failure is RankFailure.EXIT_CODE  # who calls sys.exit has printed why, as argparse
        match = end_of_log(rank.tail) if has_left else choose_end(match_text(text.splitlines()))
        if _is_refuted(match, resources):
            return RankFailureKind(Category.SIGNAL, headline(error), text, rule="run_worker_killed")
        shown = "" if error.expected else text  # the trainer's own error is enough without its traceback
        return RankFailureKind(_refine(of_error(error), match), headline(error), shown, match)
    match = end_of_log(rank.tail)
    match = None if _is_refuted(match, resources) else match
    message = headline(error) if error is not None else ""
    if rank.exit_code is None:
        category = of_error(error) if error is not None else Category.UNKNOWN
        text = error.traceback if error is not None else ""
    else:
        category, message = of_exit(rank.exit_code, resources), message or f"ended with {describe_code(rank.exit_code)}"
        text = "\n".join(rank.tail)
    category = _refine(category, match)
    return RankFailureKind(category, message, text, match, _confidence(rank, category, resources))


def _is_refuted(match: Match | None, resources: Resources | None) -> bool:
    """Return whether a rule that suspects the kernel is wrong: it has killed no process of this host for memory."""
    is_suspected = match is not None and match.rule.category is Category.OOM_KILLER
    return is_suspected and resources is not None and resources.host_oom_kills == 0 and not resources.oom_kills


def describe_cascade(rank: RankEvidence, *, uses_gpus: bool) -> RankFailureKind:
    """Return what ended a rank that failed because of another one: by its record only, its log is not read."""
    error = rank.error
    if error is None:
        return RankFailureKind(Category.UNKNOWN, f"ended with {describe_code(rank.exit_code or 0)}")
    if error.failure is RankFailure.LOST_PEER:
        return RankFailureKind(Category.NCCL if uses_gpus else Category.GLOO, headline(error), error.traceback)
    match = choose_end(match_text((error.traceback or error.message).splitlines()))
    return RankFailureKind(_refine(of_error(error), match), headline(error), error.traceback, match)


def is_lost_peer(rank: RankEvidence) -> bool:
    """Return whether a library ended a rank because it had lost another one, by the end of its log.

    Not by the rules: of many ranks that NCCL aborts, each log is read.
    """
    return names_lost_peer("\n".join(rank.tail))


def end_of_log(lines: Sequence[str]) -> Match | None:
    """Return the match that explains the end of a process, by the last lines of its log."""
    return choose_end(fatal_matches(match_text(lines), lines))


def _confidence(rank: RankEvidence, category: Category, resources: Resources | None) -> Confidence:
    """Return how sure the category of a rank without an error record is: what the kernel reports is certain."""
    if category is Category.OOM_KILLER and resources is not None and resources.oom_kills:
        return Confidence.CERTAIN
    return Confidence.CERTAIN if rank.exit_code == -signal.SIGSEGV else Confidence.LIKELY


def _refine(category: Category, match: Match | None) -> Category:
    """Return the category of the rule; a generic rule does not overrule what is known, and a hint only what is not."""
    if match is None or category is match.rule.category:
        return category
    refined = {Strength.CERTAIN: True, Strength.HINT: category in GENERIC, Strength.GENERIC: False}
    return match.rule.category if category is Category.UNKNOWN or refined[match.rule.strength] else category
