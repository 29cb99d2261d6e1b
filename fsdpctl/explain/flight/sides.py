"""Which ranks of a process group made the same call. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fsdpctl.contract.flight_record import FlightGroup
from fsdpctl.explain.flight.calls import Call, agree
from fsdpctl.explain.flight.finding import FlightSide

Stacks = Mapping[int, Sequence[str]]
"""The main thread of each rank: FILE:LINE FUNCTION, the most recent call first."""


def build_sides(here: Mapping[int, Call], group: FlightGroup, stacks: Stacks) -> tuple[FlightSide, ...]:
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
        FlightSide(
            tuple(ranks), True, call.op, name_group(group), call.inputs, call.outputs, _stack(call, ranks, stacks)
        )
        for call, ranks in together
    )


def _stack(call: Call, ranks: Sequence[int], stacks: Stacks) -> tuple[str, ...]:
    return tuple(call.stack.splitlines() or stacks.get(ranks[0], ()))


def name_group(group: FlightGroup) -> str:
    """Return the name of a process group, with its description where it has one."""
    return group.name if group.description in ("", "undefined") else f"{group.name} ({group.description})"
