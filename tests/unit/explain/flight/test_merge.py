"""From flight records to the operation that holds a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.contract.flight_record import FlightEntry, FlightGroup, FlightRecord
from fsdpctl.explain.flight.describe import describe_finding
from fsdpctl.explain.flight.finding import FlightFinding, FlightKind
from fsdpctl.explain.flight.merge import merge

ALL = FlightGroup("nccl", "0", "default_pg", (0, 1, 2, 3))
FIRST, SECOND = FlightGroup("nccl", "1", "shard", (0, 1)), FlightGroup("nccl", "1", "shard", (2, 3))
GLOO = FlightGroup("gloo", "0", "default_pg", (0, 1, 2, 3))
STACKS = {rank: (f"/run/train.py:{rank} data",) for rank in range(4)}


def call(
    sequence: int, op: str = "all_reduce", size: str = "Float[4]", *, group: int = 0, done: bool = False
) -> FlightEntry:
    is_p2p = op.startswith(("send", "recv")) or op == "coalesced"
    return FlightEntry(group, op, sequence, is_p2p, done, (size,), (size,), 0)


def record(*entries: FlightEntry, groups: tuple[FlightGroup, ...] = (ALL,)) -> FlightRecord:
    return FlightRecord(groups, entries, ("/env/torch/distributed/c10d.py:9 all_reduce\n/run/train.py:7 step",))


def merged(*records: FlightRecord | None) -> FlightFinding:
    found = merge({rank: one for rank, one in enumerate(records) if one is not None}, len(records), STACKS)
    assert found is not None
    return found


BEFORE = tuple(call(number, done=True) for number in (1, 2))
WAITS = record(*BEFORE, call(3))


def test_a_rank_that_has_not_entered_it_is_named_with_its_stack() -> None:
    found = merged(WAITS, record(*BEFORE), WAITS, WAITS)
    assert (found.kind, found.op, found.sequence, found.group) == (
        FlightKind.MISSING,
        "all_reduce",
        3,
        "0 (default_pg)",
    )
    assert (found.ranks_entered, found.ranks_missing) == ((0, 2, 3), (1,))
    assert [(side.ranks, side.has_entered) for side in found.sides] == [((0, 2, 3), True), ((1,), False)]
    assert found.sides[1].stack == STACKS[1]
    text = describe_finding(found)
    assert text.startswith(
        "flight record: rank 1 did not enter nccl all_reduce number 3 of process group 0 (default_pg)"
    )
    assert "  ranks 0,2,3 in all_reduce: Float[4] -> Float[4]\n    /run/train.py:7 step\n" in text
    assert text.endswith("  rank 1 outside of it\n    /run/train.py:1 data")


def test_a_stack_through_many_frames_of_a_library_ends_in_the_users_code() -> None:
    library = [f"/env/lib/python3.11/site-packages/trainers/x.py:{number} f" for number in range(40)]
    stacks = {**STACKS, 1: ("/env/torch/distributed/c10d.py:9 gather", *library, "/run/train.py:1 main")}
    found = merge({0: WAITS, 1: record(*BEFORE), 2: WAITS, 3: WAITS}, 4, stacks)
    assert found is not None
    assert describe_finding(found).endswith(f"  rank 1 outside of it\n    {library[0]}\n    /run/train.py:1 main")


def test_a_rank_that_has_entered_no_collective_at_all_is_missing() -> None:
    found = merged(record(call(1)), record(call(1)), record(call(1)), FlightRecord())
    assert (found.kind, found.ranks_missing) == (FlightKind.MISSING, (3,))


@pytest.mark.parametrize(
    "other",
    [
        call(3, "reduce_scatter"),
        call(3, size="Float[8]"),
        call(3, size="Double[4]"),
        call(3, size="Float[8]", done=True),
    ],
)
def test_ranks_that_disagree_are_named_also_if_it_is_done_on_some(other: FlightEntry) -> None:
    found = merged(WAITS, WAITS, record(*BEFORE, other, call(4, done=other.is_done)), WAITS)
    assert (found.kind, found.sequence) == (FlightKind.MISMATCH, 3)
    assert [side.ranks for side in found.sides] == [(0, 1, 3), (2,)]
    assert (found.sides[1].op, found.sides[1].inputs) == (other.op, other.inputs)


def test_a_disagreement_that_seems_done_everywhere_counts_before_the_wait_that_it_left() -> None:
    """As gloo and NCCL may pass over it: what one rank sent too much is what the next collective receives."""
    other = record(*BEFORE, call(3, size="Float[8]", done=True), call(4))
    done = record(*BEFORE, call(3, done=True))
    found = merged(done, done, other, done)
    assert (found.kind, found.sequence, found.ranks_waiting) == (FlightKind.MISMATCH, 3, (2,))
    assert [side.ranks for side in found.sides[:2]] == [(0, 1, 3), (2,)]


@pytest.mark.parametrize("op", ["all_to_all", "alltoall_base", "all_gather_v"])
def test_sizes_that_may_differ_are_no_mismatch(op: str) -> None:
    records = [record(call(1, op, f"Float[{rank}]")) for rank in range(4)]
    assert merged(*records).kind is FlightKind.ALL_ENTERED


def test_only_the_root_of_a_gather_has_outputs() -> None:
    root = record(replace(call(1, "gather"), outputs=("Float[4]",) * 4))
    assert merged(root, *[record(call(1, "gather"))] * 3).kind is FlightKind.ALL_ENTERED


def test_what_is_done_everywhere_holds_nothing() -> None:
    done = record(*BEFORE)
    assert merge(dict.fromkeys(range(4), done), 4, {}) is None
    assert merge({0: FlightRecord(problem="torch.distributed is not in use")}, 1, {}) is None


def test_a_rank_without_a_record_is_known_to_be_the_only_one_that_may_be_missing() -> None:
    found = merged(WAITS, WAITS, None, WAITS)
    assert (found.kind, found.ranks_missing, found.ranks_unrecorded) == (FlightKind.UNRECORDED, (), (2,))
    assert "all ranks but rank 2, which left no record, wait in" in describe_finding(found)
    known = merged(WAITS, record(*BEFORE), None, WAITS)
    assert (known.kind, known.ranks_missing, known.ranks_unrecorded) == (FlightKind.MISSING, (1,), (2,))


def test_a_rank_that_is_further_has_entered_what_its_record_has_lost() -> None:
    ahead = record(*[call(number, done=number < 900) for number in range(800, 901)])
    behind = record(*[call(number, done=number < 700) for number in range(650, 701)])
    found = merged(ahead, ahead, behind, ahead)
    assert (found.sequence, found.ranks_entered, found.ranks_missing) == (700, (0, 1, 2, 3), ())


def test_of_two_groups_the_one_counts_whose_missing_rank_waits_nowhere() -> None:
    """Rank 3 sleeps; rank 2 waits for it in their pair, so it has not entered the collective of all."""
    pair = (ALL, SECOND)
    waits_in_pair = record(*BEFORE, call(5, "all_gather", group=1), groups=pair)
    sleeps = record(*BEFORE, call(4, "all_gather", group=1, done=True), groups=pair)
    found = merged(WAITS, WAITS, waits_in_pair, sleeps)
    assert (found.group, found.op, found.ranks_missing) == ("1 (shard)", "all_gather", (3,))


def test_ranks_that_wait_for_each_other_in_two_groups_are_shown_in_both() -> None:
    groups = (FIRST, ALL)
    zero = record(call(1, group=1), groups=groups)
    one = record(call(1, "broadcast", group=0), groups=groups)
    found = merged(zero, one, zero, zero)
    assert found.kind is FlightKind.MISSING
    absent = next(side for side in found.sides if not side.has_entered)
    assert absent.op in ("broadcast", "all_reduce") and absent.group
    assert " instead\n" in describe_finding(found)


def test_groups_of_one_name_with_other_ranks_and_other_backends_are_different_groups() -> None:
    one, other = record(call(1), groups=(FIRST,)), record(call(1, size="Float[9]"), groups=(SECOND,))
    assert merged(one, one, other, other).kind is FlightKind.ALL_ENTERED
    gloo = record(call(1, size="Float[9]", done=True), groups=(GLOO,))
    assert merged(WAITS, WAITS, WAITS, gloo).kind is FlightKind.MISSING


def test_a_coalesced_call_is_one_call_that_its_last_operation_ends() -> None:
    parts = [call(1, size=size) for size in ("Float[1]", "Float[2]")]
    end = call(1, "ALLREDUCE_coalesced", done=True)
    assert merge(dict.fromkeys(range(4), record(*parts, end)), 4, {}) is None
    other = record(parts[0], call(1, size="Float[3]"), replace(end, is_done=False))
    whole = record(*parts, replace(end, is_done=False))
    assert [side.ranks for side in merged(whole, whole, whole, other).sides] == [(0, 1, 2), (3,)]


def test_a_receive_names_the_rank_that_does_not_send() -> None:
    receives, idle = record(call(1, "recv 1<-0", group=0), groups=(SECOND,)), record(call(1, done=True))
    found = merged(idle, idle, idle, receives)
    assert (found.kind, found.op, found.ranks_entered, found.ranks_missing) == (
        FlightKind.MISSING,
        "recv 1<-0",
        (3,),
        (2,),
    )
    sends = record(call(9, "send 0->1", group=0), groups=(SECOND,))
    assert merge({2: sends, 3: receives}, 4, {}) is None


def test_ranks_that_disagreed_are_named_also_if_an_error_has_ended_it_on_all() -> None:
    """As gloo records an operation that failed."""
    done, other = (record(*BEFORE, call(3, size=size, done=True), groups=(GLOO,)) for size in ("Float[4]", "Float[8]"))
    found = merged(done, done, other, done)
    assert (found.kind, found.sequence, found.ranks_waiting) == (FlightKind.MISMATCH, 3, ())
    assert [side.ranks for side in found.sides] == [(0, 1, 3), (2,)]
    assert merge(dict.fromkeys(range(4), done), 4, STACKS) is None
