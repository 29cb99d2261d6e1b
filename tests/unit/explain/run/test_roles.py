"""Who ended an attempt: no victim is ever named."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from fsdpctl.contract import Cause, RankFailure
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.rank_progress import RankProgress, Section
from fsdpctl.contract.records import NodeEnd, RankError
from fsdpctl.explain.categories import Role
from fsdpctl.explain.explanation import Confidence
from fsdpctl.explain.flight.finding import FlightFinding, FlightKind, FlightSide
from fsdpctl.explain.run.evidence import AttemptEvidence, RankEvidence
from fsdpctl.explain.run.rank_failure import is_lost_peer
from fsdpctl.explain.run.read_evidence import read_evidence
from fsdpctl.explain.run.roles import find_initiators, role_of
from fsdpctl.runs.evidence import AttemptFacts


def error(rank: int, time: float, failure: RankFailure = RankFailure.EXCEPTION, place: str = "a.py:1") -> RankError:
    return RankError(rank, rank // 2, time, "ValueError: x", "", failure=failure, place=place, kinds=("ValueError",))


def lost(rank: int, time: float) -> RankError:
    return error(rank, time, RankFailure.LOST_PEER)


def rank(number: int, *, exit_code: int | None = None, finished: bool = False, position: int | None = None,
         failed: RankError | None = None, log: Path = Path("/nowhere")) -> RankEvidence:  # fmt: skip
    progress = RankProgress(Section.SCRIPT, 1, position) if position is not None else None
    return RankEvidence(number, number // 2, "host", number % 2, log, failed, exit_code, finished, progress)


def attempt(ranks: Iterable[RankEvidence], root: Path = Path("/nowhere/attempts/1")) -> AttemptEvidence:
    facts = AttemptFacts(AttemptPaths(root))
    return AttemptEvidence(facts, RunPaths(root.parent.parent), {0: "host", 1: "host"}, tuple(ranks), None)


def test_a_lost_peer_is_never_the_first_however_early_it_is_recorded() -> None:
    ranks = [rank(0, failed=lost(0, 1.0)), rank(1, failed=lost(1, 2.0)), rank(2, failed=error(2, 9.0)), rank(3)]
    found = find_initiators(attempt(ranks), Cause.EXIT_CODE, is_lost_peer)
    assert (found.ranks, found.confidence) == ((2,), Confidence.CERTAIN)
    roles = [role_of(one, found, Cause.EXIT_CODE) for one in ranks]
    assert roles == [Role.CASCADE, Role.CASCADE, Role.INITIATING, Role.TEARDOWN]


def test_a_rank_that_left_without_a_record_comes_before_those_that_lost_it() -> None:
    ranks = [rank(0, failed=lost(0, 1.0), exit_code=1), rank(1, exit_code=3)]
    assert find_initiators(attempt(ranks), Cause.EXIT_CODE, is_lost_peer).ranks == (1,)


def test_ranks_that_fail_in_the_same_way_at_the_same_place_each_fail_by_themselves() -> None:
    other = error(2, 3.0, place="b.py:7")
    ranks = [rank(0, failed=error(0, 2.0)), rank(1, failed=error(1, 1.0)), rank(2, failed=other)]
    assert find_initiators(attempt(ranks), Cause.EXIT_CODE, is_lost_peer).ranks == (1, 0)


def test_a_process_that_nccl_aborted_has_lost_a_peer(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text(
        "[rank0]:[E1127 23:05:46.123456789 ProcessGroupNCCL.cpp:2057] [PG ID 0 PG GUID 0(default_pg) Rank 0] Process"
        " group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network"
        " error\nterminate called after throwing an instance of 'c10::DistBackendError'\n"
        "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread terminated with exception:"
        " NCCL error in: ProcessGroupNCCL.cpp:2363, remote process exited or there was a network error\n"
    )
    aborted = error(0, 1.0, RankFailure.SIGNAL)
    ranks = [rank(0, exit_code=-6, failed=aborted, log=log), rank(1, failed=error(1, 9.0))]
    assert find_initiators(attempt(ranks), Cause.SIGNAL, is_lost_peer).ranks == (1,)


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ([rank(3)], (3,)),
        ([rank(3, finished=True)], (3,)),
        ([rank(2), rank(3)], ()),
        ([rank(2, position=7), rank(3, position=5)], (3,)),
        ([rank(2, position=5), rank(3, position=5)], ()),
    ],
    ids=["stuck", "left", "two", "one is behind", "both are"],
)
def test_where_all_lost_a_peer_it_is_the_one_that_recorded_nothing(
    others: list[RankEvidence], named: tuple[int, ...]
) -> None:
    ranks = [rank(0, failed=lost(0, 1.0)), rank(1, failed=lost(1, 1.0)), *others]
    found = find_initiators(attempt(ranks), Cause.EXIT_CODE, is_lost_peer)
    assert found.ranks == named
    assert found.confidence is (Confidence.LIKELY if named else Confidence.UNKNOWN)


@pytest.mark.parametrize(
    ("kind", "missing", "sides", "named"),
    [
        (FlightKind.MISSING, (2,), ((0, 1, 3), (2,)), (2,)),
        (FlightKind.MISMATCH, (), ((0, 1, 3), (2,)), (2,)),
        (FlightKind.MISMATCH, (), ((0, 1), (2, 3)), ()),
        (FlightKind.ALL_ENTERED, (), ((0, 1, 2, 3),), ()),
    ],
)
def test_where_all_lost_a_peer_the_flight_records_name_the_rank(
    kind: FlightKind, missing: tuple[int, ...], sides: tuple[tuple[int, ...], ...], named: tuple[int, ...]
) -> None:
    found = attempt([rank(number, failed=lost(number, 1.0)) for number in range(4)])
    shown = tuple(FlightSide(ranks, has_entered=ranks != missing) for ranks in sides)
    finding = FlightFinding(kind, "0", "nccl", "all_reduce", 3, (0, 1, 3), (0, 1, 3), missing, (), shown)
    found.__dict__["flight"] = finding
    assert find_initiators(found, Cause.EXIT_CODE, is_lost_peer).ranks == named
    assert find_initiators(found, Cause.HANG, is_lost_peer).ranks == named


@pytest.mark.parametrize("cause", [Cause.STOP, Cause.CANCEL, Cause.PREEMPTION, Cause.TIME_LIMIT])
def test_no_rank_has_failed_that_was_asked_to_end(cause: Cause) -> None:
    ranks = [rank(0, failed=error(0, 1.0)), rank(1, exit_code=-15)]
    found = find_initiators(attempt(ranks), cause, is_lost_peer)
    assert not found.ranks and [role_of(one, found, cause) for one in ranks] == [Role.TEARDOWN, Role.TEARDOWN]


def test_a_lost_node_is_the_one_without_a_record_else_the_one_with_the_oldest_heartbeat(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    paths = run.attempt(1)
    for node in (0, 1):
        paths.node(node).root.mkdir(parents=True)
        paths.node(node).heartbeat.touch()
    os.utime(paths.node(0).heartbeat, (1000, 1000))
    write_json(paths.node(0).end, NodeEnd(1, "lost", cause=Cause.ABORT))
    found = find_initiators(read_evidence(run, AttemptFacts(paths), None), Cause.LOST, is_lost_peer)
    assert found.nodes == (1,)
    write_json(paths.node(1).end, NodeEnd(1, "lost", cause=Cause.ABORT))
    found = find_initiators(read_evidence(run, AttemptFacts(paths), None), Cause.LOST, is_lost_peer)
    assert found.nodes == (0,)
