from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.contract import Cause, RankFailure
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import create_once
from fsdpctl.contract.paths import AttemptPaths, NodePaths
from fsdpctl.contract.records import NodeEnd, Outcome, RankEnd, RankError
from fsdpctl.node.agent.exit_status import FailureWatch, describe_code, describe_end, describe_forced_end
from tests.testbed.disks import Mount

# As torch 2.13 writes it, shortened.
REPORT = """\
E1127 23:05:46.123 99 .../multiprocessing/api.py:988] failed (exitcode: -9) local_rank: 1 (pid: 7) of binary: python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Root Cause (first observed failure):
[0]:
  time      : 2026-11-27_23:05:46
  rank      : 3 (local_rank: 1)
  exitcode  : -9 (pid: 7)
"""


SIGNAL = RankError(3, 1, 8.0, "ended with signal 9 (SIGKILL)", "", failure=RankFailure.SIGNAL)
KILLED = NodeEnd(
    1, "rank 3 on node 1: ended with signal 9 (SIGKILL)", 3, cause=Cause.SIGNAL, first_error=SIGNAL, exits={"3": -9}
)


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    attempt = AttemptPaths(tmp_path)
    attempt.node(1).root.mkdir()
    return attempt


@pytest.mark.parametrize(
    ("outcome", "stopped", "end"),
    [
        (None, False, NodeEnd(0, "finished", cause=Cause.FINISHED)),
        (None, True, NodeEnd(75, "stopped", cause=Cause.STOP)),
        (Outcome("finished", 9), True, NodeEnd(0, "finished", cause=Cause.FINISHED)),
        (Outcome("stopped", 9, "step-00000009", "stop file"), True, NodeEnd(75, "stop file", cause=Cause.STOP)),
        (Outcome("stopped", 9), True, NodeEnd(76, "not saved", cause=Cause.STOP)),
        (
            Outcome("failed", 9, reason="loss is not finite"),
            False,
            NodeEnd(1, "loss is not finite", cause=Cause.EXCEPTION),
        ),
    ],
)
def test_exit_0_means_what_rank_0_recorded(
    attempt: AttemptPaths, outcome: Outcome | None, stopped: bool, end: NodeEnd
) -> None:
    if outcome is not None:
        write_json(attempt.outcome, outcome)
    if stopped:
        create_once(attempt.stop, "user")
    assert describe_end(0, attempt, attempt.node(1)) == end


def test_a_crash_names_global_rank_and_signal(attempt: AttemptPaths) -> None:
    attempt.node(1).torchrun_log.write_text(REPORT)
    assert describe_end(1, attempt, attempt.node(1), failed_at=8.0) == KILLED


SENTENCE = "data/val-00000.bin holds 7 tokens, its index has 9: prepare it again"


def leave_errors(attempt: AttemptPaths, *errors: RankError) -> None:
    for error in errors:
        attempt.node(1).rank_log(error.rank).touch()
        write_json(attempt.node(1).rank_error(error.rank), error)


LOST = RankError(3, 1, 5.0, "RuntimeError: Connection closed by peer", "", failure=RankFailure.LOST_PEER)
EXPECTED = RankError(2, 1, 6.0, f"{SENTENCE}\nand more", "", expected=True)
LATER = RankError(4, 1, 7.0, "the save of step 9 broke on another rank", "", expected=True)
RAISED = RankError(5, 1, 5.5, "ValueError: user bug", "")


def test_an_expected_error_has_its_own_cause(attempt: AttemptPaths) -> None:
    attempt.node(1).torchrun_log.write_text(REPORT.replace("-9", "2"))
    leave_errors(attempt, RankError(3, 1, 5.0, SENTENCE, "Traceback", expected=True, cause=Cause.CONFIGURATION))
    assert describe_end(1, attempt, attempt.node(1)).cause is Cause.CONFIGURATION


@pytest.mark.parametrize(
    ("errors", "first", "reason", "cause"),
    [
        ((LOST, LATER, EXPECTED), EXPECTED, f"rank 2 on node 1: {SENTENCE}", Cause.EXCEPTION),
        ((LOST, LATER, EXPECTED, RAISED), RAISED, "rank 5 on node 1: ValueError: user bug", Cause.EXIT_CODE),
        ((LOST,), LOST, "rank 3 on node 1: RuntimeError: Connection closed by peer", Cause.EXIT_CODE),
    ],
)
def test_the_sentence_of_the_first_error_is_the_reason(
    attempt: AttemptPaths, errors: tuple[RankError, ...], first: RankError, reason: str, cause: Cause
) -> None:
    attempt.node(1).torchrun_log.write_text(REPORT.replace("-9", "1"))  # torchrun blames rank 3
    leave_errors(attempt, *(replace(error, traceback="Traceback") for error in errors))
    end = describe_end(1, attempt, attempt.node(1))
    assert end == NodeEnd(1, reason, first.rank, cause=cause, first_error=first, exits={"3": 1})


def test_a_rank_that_left_without_a_record_failed_before_those_that_lost_it(attempt: AttemptPaths) -> None:
    attempt.node(1).torchrun_log.write_text(REPORT.replace("-9", "1"))
    leave_errors(attempt, replace(LOST, rank=2))
    assert describe_end(1, attempt, attempt.node(1)).reason == "rank 3 on node 1: ended with exit code 1"


# Ranks 2 and 3 ended between two looks of torchrun; then it ended rank 4.
TWO = """\
W1127 23:05:46.100 99 .../multiprocessing/api.py:1028] Sending process 8 closing signal SIGTERM
E1127 23:05:46.123 99 .../multiprocessing/api.py:988] failed (exitcode: 1) local_rank: 0 (pid: 6) of binary: python
Failures:
[1]:
  rank      : 3 (local_rank: 1)
  exitcode  : 5 (pid: 7)
[2]:
  rank      : 4 (local_rank: 2)
  exitcode  : -15 (pid: 8)
Root Cause (first observed failure):
[0]:
  rank      : 2 (local_rank: 0)
  exitcode  : 1 (pid: 6)
"""


def test_of_two_ranks_that_end_at_once_the_one_that_lost_the_other_is_not_the_first(attempt: AttemptPaths) -> None:
    attempt.node(1).torchrun_log.write_text(TWO)
    leave_errors(attempt, replace(LOST, rank=2))
    end = describe_end(1, attempt, attempt.node(1))
    assert (end.reason, end.exits) == ("rank 3 on node 1: ended with exit code 5", {"3": 5, "2": 1})


def test_a_signal_is_the_reason_whatever_other_ranks_report(attempt: AttemptPaths) -> None:
    attempt.node(1).torchrun_log.write_text(REPORT)
    leave_errors(attempt, EXPECTED)
    assert describe_end(1, attempt, attempt.node(1), failed_at=8.0) == KILLED


@pytest.mark.parametrize("code", [75, 76])
def test_a_script_may_report_a_stop_by_its_exit_code(attempt: AttemptPaths, code: int) -> None:
    attempt.node(1).torchrun_log.write_text(REPORT.replace("(exitcode: -9)", f"(exitcode: {code})"))
    reason = "stopped" if code == 75 else "not saved"
    assert describe_end(1, attempt, attempt.node(1)) == NodeEnd(code, reason, cause=Cause.STOP)


@pytest.mark.parametrize("code", [-signal.SIGUSR1, 128 + signal.SIGUSR1])
def test_a_rank_that_ends_by_the_signal_of_a_stop_has_not_failed(attempt: AttemptPaths, code: int) -> None:
    attempt.node(1).torchrun_log.write_text(REPORT.replace("(exitcode: -9)", f"(exitcode: {code})"))

    def end(stop_signal: signal.Signals) -> NodeEnd:
        return describe_end(1, attempt, attempt.node(1), stop_signal=stop_signal)

    assert end(signal.SIGUSR1).code == 1, "no stop was requested"
    create_once(attempt.stop, "user")
    assert end(signal.SIGUSR1) == NodeEnd(76, "ended by SIGUSR1 after the stop", cause=Cause.STOP)
    assert end(signal.SIGTERM).code == 1


def test_ranks_that_end_without_an_error_at_the_end_of_the_grace_are_not_called_unsaved(attempt: AttemptPaths) -> None:
    paths = attempt.node(1)
    write_json(paths.rank_end(2), RankEnd(2, 1.0))
    forced = NodeEnd(76, "ended by force 60 s after the stop", cause=Cause.STOP, is_forced=True)
    assert describe_forced_end(paths, num_ranks=2, grace_s=60) == forced
    write_json(paths.rank_end(3), RankEnd(3, 1.0))
    obeyed = NodeEnd(75, "ended by TERM 60 s after the stop", cause=Cause.STOP, is_forced=True)
    assert describe_forced_end(paths, num_ranks=2, grace_s=60) == obeyed


def test_without_a_report_the_log_is_named(attempt: AttemptPaths) -> None:
    assert (
        describe_end(-15, attempt, attempt.node(1)).reason
        == "torchrun ended with signal 15 (SIGTERM); see torchrun.log"
    )
    assert describe_code(3) == "exit code 3"
    assert describe_code(-250) == "signal 250"


def test_on_a_full_disk_there_is_no_log_to_look_at(small_disk: Mount) -> None:
    attempt = AttemptPaths(small_disk.path)
    attempt.node(1).root.mkdir()
    small_disk.fill()
    reason = describe_end(1, attempt, attempt.node(1)).reason
    assert reason == f"torchrun ended with exit code 1; no space is left on the disk of {attempt.node(1).root}"


def test_peers_of_a_failed_rank_get_limited_time(tmp_path: Path) -> None:
    now, log = [100.0], NodePaths(tmp_path).torchrun_log
    watch = FailureWatch(NodePaths(tmp_path), first_rank=2, patience_s=5, clock=lambda: now[0])
    assert not watch.is_overdue(), "no log yet"
    log.write_text("rendezvous took 1.2 s\n")
    now[0] += 1000
    assert not watch.is_overdue()
    log.write_text("W1127 23:05:46.123 99 .../multiprocessing/api.py:1033] Sending process 7 closing signal SIGTERM\n")
    assert not watch.is_overdue()
    now[0] += 6
    assert watch.is_overdue()


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        ("rendezvous took 1.2 s\n", None),
        (REPORT, 3),
        (REPORT.splitlines()[0], 5),
        (REPORT.replace("-9)", "1)"), None),
        (REPORT.replace("-9)", "75)"), None),
    ],
    ids=["no failure", "whole", "no summary yet", "perhaps a victim", "stopped"],
)
def test_a_killed_rank_is_seen_before_torchrun_ends(log: str, rank: int | None, attempt: AttemptPaths) -> None:
    paths = attempt.node(1)
    paths.torchrun_log.write_text(log)
    killed = FailureWatch(paths, first_rank=4, patience_s=5).find_killed()
    assert (killed and (killed.failed_rank, killed.cause)) == (rank and (rank, Cause.SIGNAL))
