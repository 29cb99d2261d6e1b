"""Which nodes an attempt's end is evidence against."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.contract import AbortReason, NodeExit, StopReason
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.records import NodeEnd, RankError
from fsdpctl.runs.verdict import AttemptEnd
from fsdpctl.supervise.suspects import VANISHED, find_evidence, find_suspects

END = AttemptEnd(2, {}, outcome=None, stop=None, abort=None)
ECC = RankError(3, 1, 0.0, "CUDA error: uncorrectable ECC error encountered", "", is_hardware=True)


@pytest.mark.parametrize(
    ("codes", "found"),
    [
        ({0: 1, 1: NodeExit.NODE_FAULT}, [1]),
        ({0: 1}, [1]),  # node 1 vanished without an exit record
        ({0: NodeExit.NODE_FAULT}, [0]),  # the others may have vanished because of it
        ({0: NodeExit.NODE_FAULT, 1: NodeExit.NODE_FAULT}, []),
        ({}, []),
        ({0: 1, 1: 1}, []),
    ],
)
def test_a_failure_of_all_nodes_is_no_nodes_fault(codes: dict[int, int], found: list[int]) -> None:
    ends = {rank: NodeEnd(code, "") for rank, code in codes.items()}
    assert list(find_suspects(replace(END, ends=ends))) == found


def test_a_rank_that_ended_by_a_fault_of_hardware_is_evidence_against_its_node() -> None:
    ends = {0: NodeEnd(1, "lost a peer"), 1: NodeEnd(1, "rank 3: CUDA error", first_error=ECC)}
    assert find_evidence(replace(END, ends=ends)) == {1: "rank 3: CUDA error"}
    ends[1] = replace(ends[1], first_error=replace(ECC, is_hardware=False))
    assert find_evidence(replace(END, ends=ends)) == {}


def test_nodes_that_are_taken_away_are_no_suspects() -> None:
    gone = replace(END, ends={0: NodeEnd(1, "")})
    assert find_evidence(gone) == {1: VANISHED}
    assert find_evidence(replace(gone, stop=ControlFile(StopReason.PREEMPT, ""))) == {}
    assert find_evidence(replace(gone, abort=ControlFile(AbortReason.CANCEL, ""))) == {}
    assert find_evidence(replace(gone, abort=ControlFile(AbortReason.LOST, ""))) == {1: VANISHED}
