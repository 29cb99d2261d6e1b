"""From the flight records of all ranks to the operation in which the run waits. Pure.

Within a group the operations of all ranks have the same order, so the earliest one that is not done on every rank is
the one that counts. Of several groups, the one counts whose missing ranks wait nowhere themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from fsdpctl.contract.flight_record import FlightGroup, FlightRecord
from fsdpctl.explain.flight.calls import Call, GroupCalls, agree, find_peer, sort_calls
from fsdpctl.explain.flight.finding import FlightFinding, FlightKind, FlightSide


def merge(
    records: Mapping[int, FlightRecord], world_size: int, stacks: Mapping[int, Sequence[str]]
) -> FlightFinding | None:
    """Return the operation that holds the run, by the records of its ranks; None if no rank waits in one.

    `stacks` has the main thread of ranks: of those that have not entered the operation, it is the only stack.
    """
    known = {rank: record for rank, record in records.items() if not record.problem}
    found = []
    for calls in sort_calls(known):
        members = calls.members(world_size)
        found += [
            one
            for one in (_find_collective(calls, members, known.keys()), _find_p2p(calls, members, known.keys()))
            if one is not None
        ]
    if not found:
        return None
    chosen = min(found, key=lambda one: _order(one, found))
    return replace(chosen, sides=chosen.sides + _outside(chosen, found, stacks))


def _find_collective(calls: GroupCalls, members: Sequence[int], recorded: Set[int]) -> FlightFinding | None:
    pending = [number for of_rank in calls.collectives.values() for number, call in of_rank.items() if not call.is_done]
    if not pending:
        return None
    number = min(pending)
    here = {rank: of_rank[number] for rank, of_rank in calls.collectives.items() if number in of_rank}
    past = {rank for rank, of_rank in calls.collectives.items() if max(of_rank) > number}
    missing = [rank for rank in members if rank in recorded and rank not in here and rank not in past]
    sides = _sides(here, calls.group)
    unrecorded = [rank for rank in members if rank not in recorded]
    if len(sides) > 1:
        kind = FlightKind.MISMATCH
    elif missing:
        kind = FlightKind.MISSING
    else:
        kind = FlightKind.UNRECORDED if unrecorded else FlightKind.ALL_ENTERED
    return FlightFinding(
        kind,
        _name(calls.group),
        calls.group.backend,
        sides[0].op,
        number,
        tuple(sorted({*here, *past})),
        tuple(missing),
        tuple(unrecorded),
        sides,
    )


def _find_p2p(calls: GroupCalls, members: Sequence[int], recorded: Set[int]) -> FlightFinding | None:
    """Return a send or receive for which the other rank has posted no counterpart."""
    waiting = {
        rank: [(number, call) for number, call in sorted(of_rank.items()) if not call.is_done]
        for rank, of_rank in calls.p2p.items()
    }
    for rank, own in waiting.items():
        for number, call in own:
            other = find_peer(call.op)
            if other is None or max(other[1:]) >= len(members):
                continue
            sender, receiver = members[other[1]], members[other[2]]
            peer = receiver if rank == sender else sender
            if any(find_peer(theirs.op) == (_half(call.op), *other[1:]) for _, theirs in waiting.get(peer, [])):
                continue
            is_recorded = peer in recorded
            return FlightFinding(
                FlightKind.MISSING if is_recorded else FlightKind.UNRECORDED,
                _name(calls.group),
                calls.group.backend,
                call.op,
                number,
                (rank,),
                (peer,) if is_recorded else (),
                () if is_recorded else (peer,),
                _sides({rank: call}, calls.group),
            )
    return None


def _half(op: str) -> str:
    return op.partition(" ")[0]


def _sides(here: Mapping[int, Call], group: FlightGroup) -> tuple[FlightSide, ...]:
    """Return the ranks that made the same call together, the most ranks first."""
    together: list[tuple[Call, list[int]]] = []
    for rank, call in sorted(here.items()):
        for first, ranks in together:
            if agree(first, call):
                ranks.append(rank)
                break
        else:
            together.append((call, [rank]))
    together.sort(key=lambda side: -len(side[1]))
    return tuple(
        FlightSide(tuple(ranks), True, call.op, _name(group), call.inputs, call.outputs, tuple(call.stack.splitlines()))
        for call, ranks in together
    )


def _order(finding: FlightFinding, found: Sequence[FlightFinding]) -> tuple[int, bool, int]:
    """Order findings: a mismatch first, then the one whose absent ranks wait in no other operation."""
    waiting = {rank for other in found if other is not finding for side in other.sides for rank in side.ranks}
    absent = {*finding.ranks_missing, *finding.ranks_unrecorded}
    kinds = list(FlightKind)
    return finding.kind is not FlightKind.MISMATCH, not absent - waiting, kinds.index(finding.kind)


def _outside(
    chosen: FlightFinding, found: Sequence[FlightFinding], stacks: Mapping[int, Sequence[str]]
) -> tuple[FlightSide, ...]:
    """Return where the ranks are that have not entered the operation: in one of another group, or in their own code."""
    elsewhere = {
        rank: replace(side, ranks=(), has_entered=False)
        for other in found
        if other is not chosen
        for side in other.sides
        for rank in side.ranks
    }
    places: dict[FlightSide, list[int]] = {}
    for rank in (*chosen.ranks_missing, *chosen.ranks_unrecorded):
        side = elsewhere.get(rank) or FlightSide((), False, stack=tuple(stacks.get(rank, ())))
        places.setdefault(side, []).append(rank)
    return tuple(replace(side, ranks=tuple(ranks)) for side, ranks in places.items())


def _name(group: FlightGroup) -> str:
    return group.name if group.description in ("", "undefined") else f"{group.name} ({group.description})"
