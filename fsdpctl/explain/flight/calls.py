"""The operations of each process group, rank by rank, from the flight records. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fsdpctl.contract.flight_record import FlightEntry, FlightGroup, FlightRecord


@dataclass(frozen=True)
class Call:
    """One call of one rank; a coalesced call has several operations."""

    ops: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    is_done: bool
    stack: str

    @property
    def op(self) -> str:
        return self.ops[-1]


@dataclass
class GroupCalls:
    """The calls of one process group on one backend: rank -> sequence number -> call."""

    group: FlightGroup
    collectives: dict[int, dict[int, Call]] = field(default_factory=dict)
    p2p: dict[int, dict[int, Call]] = field(default_factory=dict)

    def at(self, number: int) -> dict[int, Call]:
        """Return rank -> collective of this number, of the ranks that have recorded it."""
        return {rank: of_rank[number] for rank, of_rank in self.collectives.items() if number in of_rank}

    def members(self, world_size: int) -> tuple[int, ...]:
        """Return the ranks of the group: by its record, else those that called it; the default group has all."""
        if self.group.ranks:
            return self.group.ranks
        return tuple(range(world_size)) if self.group.name == "0" else tuple(sorted({*self.collectives, *self.p2p}))


def sort_calls(records: Mapping[int, FlightRecord]) -> list[GroupCalls]:
    """Return the calls by process group. Groups of the same name with other ranks are different groups."""
    groups: dict[FlightGroup, GroupCalls] = {}
    for rank, record in records.items():
        for entry in record.entries:
            group = record.groups[entry.group]
            key = replace(group, description="")  # ranks may describe one differently
            calls = groups.setdefault(key, GroupCalls(group))
            of_rank = (calls.p2p if entry.is_p2p else calls.collectives).setdefault(rank, {})
            of_rank[entry.sequence] = _join(of_rank.get(entry.sequence), entry, record)
    return list(groups.values())


def _join(before: Call | None, entry: FlightEntry, record: FlightRecord) -> Call:
    stack = record.stacks[entry.stack]
    if before is None:
        return Call((entry.op,), entry.inputs, entry.outputs, entry.is_done, stack)
    ops, inputs, outputs = (*before.ops, entry.op), before.inputs + entry.inputs, before.outputs + entry.outputs
    return Call(ops, inputs, outputs, entry.is_done, stack)


def agree(one: Call, other: Call) -> bool:
    """Return whether two ranks made the same call. What only some ranks pass, or in other sizes, is not compared."""
    if one.ops != other.ops:
        return False
    varies = one.op.startswith(("all_to_all", "alltoall", "coalesced")) or one.op.endswith(("_v", "_v_single"))
    compares_inputs = not varies and not one.op.startswith("scatter")
    compares_outputs = not varies and not one.op.startswith("gather")
    return (not compares_inputs or one.inputs == other.inputs) and (
        not compares_outputs or one.outputs == other.outputs
    )
