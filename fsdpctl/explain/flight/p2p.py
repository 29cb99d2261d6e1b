"""Sends and receives for which the other rank has posted no counterpart. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from fsdpctl.explain.flight.calls import GroupCalls
from fsdpctl.explain.flight.finding import FlightFinding, FlightKind
from fsdpctl.explain.flight.sides import Stacks, build_sides, name_group

_P2P = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")


def find_p2p(calls: GroupCalls, members: Sequence[int], recorded: Set[int], stacks: Stacks) -> FlightFinding | None:
    """Return a send or receive for which the other rank has posted no counterpart."""
    waiting = {
        rank: [(number, call) for number, call in sorted(of_rank.items()) if not call.is_done]
        for rank, of_rank in calls.p2p.items()
    }
    for rank, own in waiting.items():
        for number, call in own:
            other = _find_peer(call.op)
            if other is None or max(other[1:]) >= len(members):
                continue
            sender, receiver = members[other[1]], members[other[2]]
            peer = receiver if rank == sender else sender
            if any(_find_peer(theirs.op) == (_half(call.op), *other[1:]) for _, theirs in waiting.get(peer, [])):
                continue
            is_recorded = peer in recorded
            return FlightFinding(
                FlightKind.MISSING if is_recorded else FlightKind.UNRECORDED,
                name_group(calls.group),
                calls.group.backend,
                call.op,
                number,
                (rank,),
                (rank,),
                (peer,) if is_recorded else (),
                () if is_recorded else (peer,),
                build_sides({rank: call}, calls.group, stacks),
            )
    return None


def _half(op: str) -> str:
    return op.partition(" ")[0]


def _find_peer(op: str) -> tuple[str, int, int] | None:
    """Return the other half of `send 0->1` or `recv 1<-0`, and the ranks (within the group) that send and receive."""
    found = _P2P.fullmatch(op)
    if found is None:
        return None
    one, other = int(found[2]), int(found[3])
    return ("recv", one, other) if found[1] == "send" else ("send", other, one)
