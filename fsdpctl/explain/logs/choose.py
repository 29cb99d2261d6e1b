"""Which of the matches in one process's log ended it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from fsdpctl.explain.categories import Category, Role
from fsdpctl.explain.logs.match import Match
from fsdpctl.explain.logs.statements import Link
from fsdpctl.explain.rule import Strength
from fsdpctl.explain.rulebook import all_rules

OFTEN_CAUGHT = {
    Category.MISSING_MODULE,
    Category.FILE_NOT_FOUND,
    Category.PERMISSION,
    Category.NETWORK,
    Category.ASSERTION,
    Category.DIVISION_BY_ZERO,
    Category.EXCEPTION,
    Category.RUNTIME_ERROR,
}
"""Scripts try something, catch one of these and continue: it is no cause of an exception that only follows it."""
_WRITTEN_LATE = {Category.OOM_KILLER, Category.TIME_LIMIT, Category.PREEMPTION, Category.NODE_FAILURE}
"""The scheduler and the kernel report these after the process has ended."""
_OF_SCHEDULER = {Category.TIME_LIMIT, Category.PREEMPTION}
"""All that comes after the scheduler has ended the job follows from that."""
_OF_A_PEER = {Category.OOM_KILLER, Category.NODE_FAILURE, Category.SEGFAULT}
_OF_COMMUNICATION = {Category.NCCL, Category.GLOO, Category.NETWORK}
"""What ranks raise after one of them was killed."""
_KILLS = {"ended_by_launcher", "job_cancelled", "hang_watchdog", "hang_reported"}
"""Rules of what kills processes: that these end by SIGKILL follows from it."""
UNEXPLAINED_KILL = "sigkill"
"""The rule of a SIGKILL: of the kernel for memory, or of a launcher after another process has failed."""
LOST_STORAGE = "filesystem_lost"
OF_LOST_STORAGE = {"read_only", "shared_memory_bus_error"}
"""Rules of what processes end by when their file system was lost."""
_REQUESTS = {"terminated", "job_cancelled"}
"""Rules of what asks processes to end."""
_AFTER_AN_EXIT = "torchrun_closes"
"""The rule of what torchrun does before it reports that a process left."""
_CODES_OF_SIGNALS = {"130", "143"}
_NEAR = 40
"""Lines between a step and the exception that it caused."""


def choose_end(matches: Sequence[Match], *, first: bool = False) -> Match | None:
    """Return the match that explains the end of the process.

    An uncaught exception is better evidence than a line, and one whose kind is known better than a generic one. With
    `first` the text is of many ranks, which end one after the other, so that the first exception counts.
    """
    matches = _without_ended(_without_killed(_without_storage(_without_raised_from_a_peer(matches))))
    exceptions = [_resolve(chain) for chain in _chains(own_failures(matches))]
    raised = _pick(_first_raised(exceptions) if first else _last_first(exceptions))
    fatal = _best_rank(m for m in own_failures(matches) if not m.is_exception and m.strength is Strength.CERTAIN)
    if raised is not None and fatal is not None and _is_before(fatal, raised):
        raised = None
    if raised is not None and (raised.strength is Strength.GENERIC or _is_bare_assertion(raised)):
        raised = _find_nan(raised, matches) or raised
    return _refine(raised or fatal or _second_best(matches), matches)


def _without_raised_from_a_peer(matches: Sequence[Match]) -> list[Match]:
    """Return the matches without exceptions raised from a collective that failed for a peer, or while handling one."""
    left: list[Match] = []
    follows = False
    for match in matches:
        if match.is_exception:
            follows = _is_collective(match) or (follows and match.link is not Link.NONE)
        if not (follows and match.is_exception and match.rule.role is Role.INITIATING):
            left.append(match)
    return left


def _is_collective(match: Match) -> bool:
    return match.rule.role is Role.CASCADE and match.rule.category in (Category.NCCL, Category.GLOO)


def _without_storage(matches: Sequence[Match]) -> list[Match]:
    """Return the matches without what follows from the loss of a file system."""
    lost = next((m.number for m in matches if m.rule.id == LOST_STORAGE), inf)
    return [m for m in matches if not (m.number > lost and m.rule.id in OF_LOST_STORAGE)]


def _without_killed(matches: Sequence[Match]) -> list[Match]:
    """Return the matches without the processes that a launcher or a watchdog kills, or that end with their job."""
    killed = next((m.number for m in matches if m.rule.id in _KILLS), None)
    return [m for m in matches if killed is None or m.number <= killed or m.rule.id != UNEXPLAINED_KILL]


def _without_ended(matches: Sequence[Match]) -> list[Match]:
    """Return the matches without the requests to end that follow from a process that had left by itself."""
    exits = (m for m in matches if m.rule.id == "bad_exit_code" and m.fields["code"] not in _CODES_OF_SIGNALS)
    left = next((match.number for match in exits), inf)
    return [
        m
        for m in matches
        if not (m.rule.id in _REQUESTS and m.number > left) and not (m.rule.id == _AFTER_AN_EXIT and left < inf)
    ]


def own_failures(matches: Iterable[Match]) -> list[Match]:
    """Return the matches that are failures of the process itself: no hints, and none that follows from a peer."""
    return [m for m in matches if m.rule.role is Role.INITIATING and m.strength is not Strength.HINT]


def _chains(matches: Iterable[Match]) -> list[list[Match]]:
    """Return the exceptions in groups: each with those that were raised from it or while it was handled."""
    chains: list[list[Match]] = []
    for match in matches:
        if match.is_exception:
            if chains and match.link is not Link.NONE:
                chains[-1].append(match)
            elif chains and _is_summed_up(chains[-1][-1], match):
                chains[-1].append(replace(match, link=Link.CAUSE))
            else:
                chains.append([match])
    return chains


def _is_summed_up(cause: Match, match: Match) -> bool:
    """Return whether a generic exception is directly below a known one, as where tracebacks are left out."""
    is_next = match.number == cause.number + 1 and not match.in_traceback and not cause.in_traceback
    return is_next and match.strength is Strength.GENERIC and cause.strength is Strength.CERTAIN


def _resolve(chain: Sequence[Match]) -> Match:
    """Return the exception of a chain that explains it: the last one, unless it is generic and was raised for an
    earlier one that is not, or came up while a grave one was handled, as when a report of it fails."""
    last = chain[-1]
    is_generic = last.strength is Strength.GENERIC
    if not is_generic and last.rule.category not in OFTEN_CAUGHT:
        return last
    for before, after in zip(chain[-2::-1], chain[::-1], strict=False):
        is_grave = before.rule.category not in OFTEN_CAUGHT
        if before.strength is Strength.CERTAIN and (is_grave or (is_generic and after.link is Link.CAUSE)):
            return before
    return last


def _first_raised(exceptions: Sequence[Match]) -> list[Match]:
    """Return the exceptions of many ranks, the first one first; a line that only looks like one proves less."""
    return sorted(exceptions, key=lambda match: match.strength is Strength.GENERIC and not match.in_traceback)


def _last_first(exceptions: Sequence[Match]) -> list[Match]:
    """Return the exceptions of one process, the last one first; after a traceback, what native code raises while the
    process ends only follows from it."""
    return sorted(exceptions, key=lambda match: (not match.in_traceback, -match.number))


def _pick(exceptions: Sequence[Match]) -> Match | None:
    """Return the first that is not generic if nothing can have caught it, else the first."""
    if not exceptions:
        return None
    if exceptions[0].strength is Strength.CERTAIN:
        return exceptions[0]
    known = (m for m in exceptions if m.strength is Strength.CERTAIN and m.rule.category not in OFTEN_CAUGHT)
    return next(known, exceptions[0])


def _is_before(fatal: Match, raised: Match) -> bool:
    """Return whether a line explains the end better than an exception."""
    is_before = fatal.number < raised.number
    if raised.strength is not Strength.GENERIC:
        lost_a_peer = fatal.rule.category in _OF_A_PEER and raised.rule.category in _OF_COMMUNICATION
        return is_before and (fatal.rule.category in _OF_SCHEDULER or lost_a_peer)
    return is_before or fatal.rule.category in _WRITTEN_LATE


def _is_bare_assertion(raised: Match) -> bool:
    return raised.rule.category is Category.ASSERTION and raised.fields.get("message") in (None, "None")


def _find_nan(raised: Match, matches: Iterable[Match]) -> Match | None:
    """Return the last step without a finite loss just before a generic exception: that follows from it."""
    near = [m for m in matches if 0 < raised.number - m.number <= _NEAR and m.rule.category is Category.NAN]
    return near[-1] if near else None


def _second_best(matches: Sequence[Match]) -> Match | None:
    """Return what is left without a failure of its own: a lost peer, a hint, an end on request."""
    for role, strengths in (
        (Role.CASCADE, (Strength.CERTAIN,)),
        (Role.INITIATING, (Strength.HINT,)),
        (Role.CASCADE, (Strength.GENERIC,)),
        (Role.INITIATING, (Strength.GENERIC,)),
        (Role.CASCADE, (Strength.HINT,)),
        (Role.TEARDOWN, tuple(Strength)),
    ):
        if found := _best_rank(m for m in matches if m.rule.role is role and m.strength in strengths):
            return found
    return None


def _refine(chosen: Match | None, matches: Iterable[Match]) -> Match | None:
    """Return a hint of the same category if its rule is more precise than the chosen one."""
    if chosen is None:
        return None
    hints = (m for m in matches if m.strength is Strength.HINT and m.rule is not chosen.rule)
    return _best_rank((chosen, *(hint for hint in hints if hint.rule.category is chosen.rule.category)))


def _best_rank(matches: Iterable[Match]) -> Match | None:
    rank = {rule.id: number for number, rule in enumerate(all_rules())}
    return min(matches, key=lambda match: (rank[match.rule.id], match.number), default=None)
