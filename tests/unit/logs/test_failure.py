from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from fsdpctl.contract import Cause, RankFailure
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.records import NodeEnd, RankError
from fsdpctl.logs.failure import describe, find_root_cause

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3\nValueError: bad batch\n'


def error(rank: int, time: float, message: str, traceback: str = "") -> RankError:
    return RankError(rank, rank // 2, time, message, traceback)


def described(*errors: RankError, ends: Mapping[int, NodeEnd] = MappingProxyType({}), abort: str = "") -> str:
    cause = find_root_cause(errors, ends, ControlFile(abort, "") if abort else None)
    assert cause is not None
    return describe(cause)


def closed(rank: int, time: float) -> RankError:
    message = f"RuntimeError: [gloo/pair.cc:534] Connection closed by peer [10.0.0.{rank}]:4{rank}"
    return replace(error(rank, time, message), failure=RankFailure.LOST_PEER)


def test_without_errors_there_is_no_cause() -> None:
    assert find_root_cause([], {}, None) is None


def test_the_first_error_is_described_with_its_traceback_and_the_later_ones_folded() -> None:
    errors = [closed(3, 12.0), closed(0, 11.0), error(2, 10.0, "ValueError: bad batch", TRACEBACK), closed(1, 13.0)]
    assert described(*errors) == (
        "rank 2 on node 1 failed first: ValueError: bad batch\n"
        + TRACEBACK
        + "3 more ranks failed after it: 0, 1, 3 (lost a peer)"
    )


def test_a_lost_peer_is_no_cause_even_if_it_is_earlier() -> None:
    assert described(closed(0, 5.0), error(2, 9.0, "ValueError: x")).startswith(
        "rank 2 on node 1 failed first: ValueError"
    )


def test_an_expected_error_is_a_cause_whatever_its_text() -> None:
    sentence = RankError(2, 1, 9.0, "cannot read the data: connection refused", TRACEBACK, expected=True)
    text = described(closed(0, 5.0), sentence)
    assert text.startswith("rank 2 on node 1 failed first: cannot read the data: connection refused\n")
    assert text.endswith("1 more rank failed after it: 0 (lost a peer)")


def test_later_errors_are_folded_by_reason() -> None:
    text = described(
        error(0, 1.0, "A: first"), error(1, 2.0, "B: own\nmore"), *(closed(rank, 3.0) for rank in range(2, 9))
    )
    assert text.endswith("8 more ranks failed after it: 1 (B: own); 2-8 (lost a peer)")


def test_one_later_error_is_one_rank() -> None:
    assert described(error(0, 1.0, "A"), closed(1, 2.0)).endswith("1 more rank failed after it: 1 (lost a peer)")


def test_a_killed_rank_is_the_cause_though_its_peers_failed_earlier() -> None:
    text = described(closed(0, 5.0), error(2, 6.0, "ended with signal 9 (SIGKILL)"))
    assert text.startswith("rank 2 on node 1 failed first: ended with signal 9 (SIGKILL)\n1 more rank")


def test_the_rank_of_the_exit_records_comes_first_and_the_errors_after_a_hang_are_no_cause() -> None:
    """The state of the run has the exit record's rank: another rank's clock may run behind."""
    late, early = error(2, 9.0, "ValueError: x"), error(0, 5.0, "ValueError: y")
    failed = NodeEnd(1, "", failed_rank=2, time=9.5, cause=Cause.SIGNAL)
    assert described(late, early, ends={0: NodeEnd(1, "", cause=Cause.ABORT), 1: failed}).startswith("rank 2 on node 1")
    hung = {node_rank: NodeEnd(1, "hang", cause=Cause.ABORT) for node_rank in (0, 1)}
    assert find_root_cause([late], hung, ControlFile("hang", "")) is None


def test_lost_peers_alone_are_not_presented_as_the_cause() -> None:
    assert "was killed without leaving an error" in described(closed(0, 1.0), closed(1, 2.0))


def test_a_message_of_many_lines_without_traceback_is_shown_whole() -> None:
    assert described(error(0, 1.0, "A: one\ntwo\n")) == "rank 0 on node 0 failed first: A: one\ntwo"


def test_an_empty_message_is_allowed() -> None:
    assert described(error(0, 1.0, "")) == "rank 0 on node 0 failed first: "
