"""From the flight records of all ranks to the operation in which the run waits. Pure.

Within a group the operations of all ranks have the same order, so the earliest one that is not done on every rank is
the one that counts; or one before it in which ranks disagree, because such a one may seem done and leave the next one
without a partner. Of several groups, the one counts whose missing ranks wait nowhere themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from fsdpctl.contract.flight_record import FlightRecord
from fsdpctl.explain.flight.calls import GroupCalls, agree, sort_calls
from fsdpctl.explain.flight.finding import FlightFinding, FlightKind, FlightSide
from fsdpctl.explain.flight.p2p import find_p2p
from fsdpctl.explain.flight.sides import Stacks, build_sides, name_group


def merge(records: Mapping[int, FlightRecord], world_size: int, stacks: Stacks) -> FlightFinding | None:
    """Return the operation that holds the run, by the records of its ranks; None if no rank waits in one.

    `stacks` has the main thread of ranks: the stack of those that have not entered it, or recorded none.
    """
    known = {rank: record for rank, record in records.items() if not record.problem}
    each = [
        find(calls, calls.members(world_size), known.keys(), stacks)
        for calls in sort_calls(known)
        for find in (_find_collective, find_p2p)
    ]
    found = [finding for finding in each if finding is not None]
    if not found:
        return None
    chosen = min(found, key=lambda one: _order(one, found))
    return replace(chosen, sides=chosen.sides + _outside(chosen, found, stacks))


def _find_collective(
    calls: GroupCalls, members: Sequence[int], recorded: Set[int], stacks: Stacks
) -> FlightFinding | None:
    pending = [number for of_rank in calls.collectives.values() for number, call in of_rank.items() if not call.is_done]
    if not pending:
        return _find_ended(calls, stacks)
    stuck = calls.at(min(pending))
    number = _find_disagreement(calls, min(pending))
    here = calls.at(number)
    past = {rank for rank, of_rank in calls.collectives.items() if max(of_rank) > number}
    missing = [rank for rank in members if rank in recorded and rank not in here and rank not in past]
    sides = build_sides(here, calls.group, stacks)
    unrecorded = [rank for rank in members if rank not in recorded]
    if len(sides) > 1:
        kind = FlightKind.MISMATCH
    elif missing:
        kind = FlightKind.MISSING
    else:
        kind = FlightKind.UNRECORDED if unrecorded else FlightKind.ALL_ENTERED
    return FlightFinding(
        kind,
        name_group(calls.group),
        calls.group.backend,
        sides[0].op,
        number,
        tuple(sorted({*here, *past})),
        tuple(sorted(rank for rank, call in stuck.items() if not call.is_done)),
        tuple(missing),
        tuple(unrecorded),
        sides,
    )


def _find_disagreement(calls: GroupCalls, last: int) -> int:
    """Return the number of the first recorded collective in which ranks disagree, at most `last`; else `last`."""
    numbers = {number for of_rank in calls.collectives.values() for number in of_rank if number < last}
    for number in sorted(numbers):
        first, *others = calls.at(number).values()
        if not all(agree(first, other) for other in others):
            return number
    return last


def _find_ended(calls: GroupCalls, stacks: Stacks) -> FlightFinding | None:
    """Return the collective in which ranks disagreed, where none waits any more: gloo ends it by an error."""
    last = max((number for of_rank in calls.collectives.values() for number in of_rank), default=0)
    number = _find_disagreement(calls, last + 1)
    here = calls.at(number)
    sides = build_sides(here, calls.group, stacks)
    if not sides:
        return None
    name, backend, ranks = name_group(calls.group), calls.group.backend, tuple(sorted(here))
    return FlightFinding(FlightKind.MISMATCH, name, backend, sides[0].op, number, ranks, (), sides=sides)


def _order(finding: FlightFinding, found: Sequence[FlightFinding]) -> tuple[int, bool, int]:
    """Order findings: a mismatch first, then the one whose absent ranks wait in no other operation."""
    waiting = {rank for other in found if other is not finding for rank in other.ranks_waiting}
    absent = {*finding.ranks_missing, *finding.ranks_unrecorded}
    kinds = list(FlightKind)
    return finding.kind is not FlightKind.MISMATCH, bool(absent & waiting), kinds.index(finding.kind)


def _outside(chosen: FlightFinding, found: Sequence[FlightFinding], stacks: Stacks) -> tuple[FlightSide, ...]:
    """Return where the ranks are that have not entered the operation: in one of another group, or in their own code."""
    elsewhere = {
        rank: replace(side, ranks=(), has_entered=False)
        for other in found
        if other is not chosen
        for side in other.sides
        for rank in side.ranks
        if rank in other.ranks_waiting
    }
    places: dict[FlightSide, list[int]] = {}
    for rank in (*chosen.ranks_missing, *chosen.ranks_unrecorded):
        side = elsewhere.get(rank) or FlightSide((), False, stack=tuple(stacks.get(rank, ())))
        places.setdefault(side, []).append(rank)
    return tuple(replace(side, ranks=tuple(ranks)) for side, ranks in places.items())
