"""The diagnosis of an attempt from its files: rules for what a rank left, records for what none did."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.contract import Cause, RankFailure
from fsdpctl.contract.codec import read_json, write_json
from fsdpctl.contract.flight_record import FlightEntry, FlightGroup, FlightRecord
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import NodeEnd, RankEnd, RankError, Resources
from fsdpctl.explain.categories import Category, Role
from fsdpctl.explain.explanation import Confidence, Diagnosis, FailedRank
from fsdpctl.explain.rulebook import rules_for_cause
from fsdpctl.explain.run.diagnose import explain_attempt, of_end
from fsdpctl.explain.run.read_evidence import read_evidence
from fsdpctl.explain.run.structured import of_cause
from fsdpctl.runs.evidence import AttemptFacts

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of"
    " which 1.20 GiB is free. Including non-PyTorch memory, this process has 77.80 GiB memory in use. Of the allocated"
    " memory 60.00 GiB is allocated by PyTorch, and 16.00 GiB is reserved by PyTorch but unallocated."
)
TRACE = 'Traceback (most recent call last):\n  File "/home/me/fit.py", line 9, in main\n    loss.backward()\n'


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run of one attempt on one node with two ranks."""
    run = RunPaths(tmp_path / "r-aaaa")
    node = run.attempt(1).node(0)
    node.root.mkdir(parents=True)
    for rank in (0, 1):
        node.rank_log(rank).write_text("step 1\n")
    return run


def fail(run: RunPaths, error: RankError) -> None:
    node = run.attempt(1).node(0)
    write_json(node.rank_error(error.rank), error)
    write_json(node.end, NodeEnd(1, "x", error.rank, 1.0, Cause.EXIT_CODE, error, {str(error.rank): 1}))


def left(run: RunPaths, code: int, resources: Resources | None = None) -> None:
    error = RankError(1, 0, 1.0, f"ended with {code}", "", failure=RankFailure.SIGNAL)
    end = NodeEnd(1, "x", 1, 1.0, Cause.SIGNAL, error, {"1": code}, resources)
    write_json(run.attempt(1).node(0).end, end)


def explained(run: RunPaths, cause: Cause) -> tuple[Diagnosis, tuple[FailedRank, ...]]:
    return explain_attempt(read_evidence(run, AttemptFacts(run.attempt(1)), None), cause, "the reason")


def test_a_rule_has_the_numbers_of_the_error_and_no_log_is_needed(run: RunPaths) -> None:
    fail(run, RankError(1, 0, 1.0, OOM, f"{TRACE}{OOM}\n", kinds=("OutOfMemoryError", "RuntimeError")))
    found, (first, other) = explained(run, Cause.EXIT_CODE)
    assert (found.category, found.confidence, found.rule) == (
        Category.CUDA_OOM,
        Confidence.CERTAIN,
        "cuda_oom_fragmented",
    )
    assert "16.00 GiB" in found.summary and "expandable_segments" in found.changes[0]
    assert (first.rank, first.role, first.frames) == (
        1,
        Role.INITIATING,
        ("/home/me/fit.py:9 in main: loss.backward()",),
    )
    assert (other.rank, other.role) == (0, Role.TEARDOWN)


def test_the_variable_that_a_path_is_from_is_named(run: RunPaths) -> None:
    message = "FileNotFoundError: [Errno 2] No such file or directory: '/cache/hub'"
    error = RankError(1, 0, 1.0, message, f"{TRACE}{message}\n", kinds=("FileNotFoundError", "OSError"), errno=2)
    fail(run, error)
    assert not any("HF_HOME" in change for change in explained(run, Cause.EXIT_CODE)[0].changes)
    fail(run, replace(error, variable="HF_HOME"))
    found = explained(run, Cause.EXIT_CODE)[0]
    assert (found.category, "HF_HOME" in found.changes[0]) == (Category.FILE_NOT_FOUND, True)


def test_a_script_that_leaves_by_itself_has_printed_why(run: RunPaths) -> None:
    error = RankError(1, 0, 1.0, "SystemExit: 2", "", failure=RankFailure.EXIT_CODE, kinds=("SystemExit",))
    fail(run, error)
    assert explained(run, Cause.EXIT_CODE)[0].rule == "run_exit_code"
    run.attempt(1).node(0).rank_log(1).write_text("usage: fit.py\nfit.py: error: unrecognized arguments: --lrr\n")
    found, _ = explained(run, Cause.EXIT_CODE)
    assert found.rule == "bad_arguments" and "--lrr" in found.summary


def test_torchrun_that_ended_on_a_full_disk_is_no_rendezvous(run: RunPaths) -> None:
    end = NodeEnd(1, "torchrun ended with exit code 1", time=1.0, cause=Cause.TORCHRUN)
    node = run.attempt(1).node(0)
    node.root.mkdir(parents=True, exist_ok=True)
    for resources, rule in ((None, "run_torchrun"), (Resources(is_disk_full=True), "run_disk_full")):
        write_json(node.end, replace(end, resources=resources))
        found, _ = explained(run, Cause.TORCHRUN)
        assert found.rule == rule
    assert "the disk of the run is full" in found.evidence and not found.retry


def test_a_kill_is_of_the_kernel_only_if_the_kernel_reports_one(run: RunPaths) -> None:
    left(run, -9)
    found, _ = explained(run, Cause.SIGNAL)
    assert (found.category, found.confidence) == (Category.SIGNAL, Confidence.UNKNOWN)
    left(run, -9, Resources(oom_kills=0, host_oom_kills=3))
    found, _ = explained(run, Cause.SIGNAL)
    assert (found.category, found.confidence) == (Category.OOM_KILLER, Confidence.LIKELY)
    left(run, -9, Resources(oom_kills=1, memory_limit=2**32, memory_peak=2**32))
    found, _ = explained(run, Cause.SIGNAL)
    assert (found.category, found.confidence) == (Category.OOM_KILLER, Confidence.CERTAIN)
    assert "the limit is 4.0 GiB, the peak was 4.0 GiB" in found.summary


def test_a_rule_that_suspects_the_kernel_is_refuted_by_its_counter(run: RunPaths) -> None:
    text = "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. "
    error = RankError(1, 0, 1.0, text, f"{TRACE}{text}\n", kinds=("RuntimeError",))
    for resources, category in ((None, Category.OOM_KILLER), (Resources(0, 0), Category.SIGNAL)):
        fail(run, error)
        node = run.attempt(1).node(0)
        write_json(node.end, NodeEnd(1, "x", 1, 1.0, Cause.EXIT_CODE, error, {"1": 1}, resources))
        assert explained(run, Cause.EXIT_CODE)[0].category is category


def test_what_no_rule_fits_is_shown_with_its_evidence(run: RunPaths) -> None:
    left(run, 7)
    run.attempt(1).node(0).rank_log(1).write_text("step 1\ngave up\n")
    found, _ = explained(run, Cause.EXIT_CODE)
    assert (found.category, found.confidence) == (Category.EXIT_CODE, Confidence.UNKNOWN)
    assert found.evidence == ("torchrun saw rank 1 end with exit code 7",)


def test_without_any_record_the_cause_is_not_known(run: RunPaths) -> None:
    found, ranks = explained(run, Cause.ABORT)
    assert (found.category, found.confidence, found.evidence) == (Category.UNKNOWN, Confidence.UNKNOWN, ("the reason",))
    assert {rank.role for rank in ranks} == {Role.TEARDOWN}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (("Float[4]", "Float[8]"), (Category.RUNTIME_ERROR, Confidence.CERTAIN, False)),
        (("Float[4]", "Float[4]"), (Category.HANG, Confidence.UNKNOWN, True)),
    ],
    ids=["they disagree", "they agree"],
)
def test_ranks_that_wait_in_one_operation_are_explained_by_their_flight_records(
    run: RunPaths, sizes: tuple[str, str], expected: tuple[Category, Confidence, bool]
) -> None:
    node = run.attempt(1).node(0)
    for rank, size in enumerate(sizes):
        group = FlightGroup("gloo", "0", "default_pg", (0, 1))
        entry = FlightEntry(0, "all_reduce", 41, False, False, (size,), (size,), 0)
        write_json(node.rank_flight(rank), FlightRecord((group,), (entry,), (f"/run/train.py:{7 + rank} step",)))
    found, _ = explained(run, Cause.HANG)
    assert (found.category, found.confidence, found.retry) == expected
    shown = "\n".join(found.evidence)
    assert "gloo all_reduce number 41" in shown and "/run/train.py:7 step" in shown
    assert sizes[0] in shown and sizes[1] in shown


@pytest.mark.parametrize("cause", [cause for cause in Cause if of_cause(cause) is not None])
def test_every_end_that_no_rank_caused_has_a_rule(cause: Cause) -> None:
    found = of_end(cause, "the reason", {"run": "r-aaaa"})
    assert found.rule is not None and found.changes and found.category is of_cause(cause)
    assert found.rule == rules_for_cause(cause)[0].id, "the first rule for a cause is of fsdpctl's own records"
    assert "{" not in found.summary + "".join(found.changes).replace("{after: ...}", "")


MEASURE = """
import re, resource, sys
from pathlib import Path
from fsdpctl.contract import Cause
from fsdpctl.contract.paths import RunPaths
from fsdpctl.explain.run.diagnose import explain_attempt
from fsdpctl.explain.run.read_evidence import read_evidence
from fsdpctl.runs.evidence import AttemptFacts
run = RunPaths(Path(sys.argv[1]))
diagnosis, ranks = explain_attempt(read_evidence(run, AttemptFacts(run.attempt(1)), None), Cause.SIGNAL, "")
assert (ranks[0].rank, ranks[0].role, len(ranks)) == (43, "initiating", 64), ranks[0]
used = resource.getrusage(resource.RUSAGE_SELF)
assert used.ru_utime + used.ru_stime < 2, used
# ru_maxrss has the peak of the parent, too.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
assert int(peak) < 100_000, peak
"""
ABORTED = (
    "[rank0]:[E1127 23:05:46.1 ProcessGroupNCCL.cpp:2057] [PG ID 0 Rank 0] Process group watchdog thread terminated"
    " with exception: NCCL error: remote process exited or there was a network error\n"
)


@pytest.mark.slow
def test_64_ranks_with_100_mb_of_log_each_cost_two_seconds_and_100_mb(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "r-aaaa")
    for number in range(8):
        node = run.attempt(1).node(number)
        node.root.mkdir(parents=True)
        ranks = range(8 * number, 8 * number + 8)
        for rank in ranks:
            with open(node.rank_log(rank), "wb") as file:
                file.truncate(100_000_000)  # takes no space
                file.seek(0, 2)
                file.write(b"\n" + 1000 * b"step 7 loss 2.34567 tokens/s 123456.7 memory 45.6 GiB\n" + ABORTED.encode())
        first = RankError(ranks[0], number, 1.0, "ended with signal 6", "", failure=RankFailure.SIGNAL)
        exits = {str(rank): -6 for rank in ranks if rank != 43}
        write_json(node.end, NodeEnd(1, "x", ranks[0], 1.0, Cause.SIGNAL, first, exits))
    error = RankError(43, 5, 9.0, "KeyError: 'x'", f"{TRACE}KeyError: 'x'\n", kinds=("KeyError",))
    write_json(run.attempt(1).node(5).rank_error(43), error)
    subprocess.run([sys.executable, "-c", MEASURE, str(run.root)], check=True, timeout=120)


def test_a_script_that_only_reports_a_failure_is_believed(run: RunPaths) -> None:
    node = run.attempt(1).node(0)
    write_json(node.end, NodeEnd(1, "loss is too high", time=1.0, cause=Cause.EXCEPTION))
    found, ranks = explained(run, Cause.EXCEPTION)
    assert (found.category, found.rule, found.confidence) == (Category.EXCEPTION, "run_reported", Confidence.CERTAIN)
    assert (ranks[0].rank, ranks[0].message, ranks[0].role) == (None, "loss is too high", Role.INITIATING)


def test_a_node_whose_directory_cannot_be_read_is_evidence_and_no_end(other_user: Path) -> None:
    run = RunPaths(other_user / "r-aaaa")
    for rank in (0, 1):
        run.attempt(1).node(rank).root.mkdir(parents=True)
    run.attempt(1).node(0).rank_log(0).write_text("step 1\n")
    fail(run, RankError(0, 0, 1.0, OOM, f"{TRACE}{OOM}\n", kinds=("OutOfMemoryError", "RuntimeError")))
    run.attempt(1).node(1).root.chmod(0)
    found, _ = explained(run, Cause.EXIT_CODE)
    run.attempt(1).node(1).root.chmod(0o700)
    assert found.category is Category.CUDA_OOM
    assert found.evidence[-1] == "the directory of node 1 cannot be read: permission denied"


def test_a_worker_that_another_process_killed_has_something_to_change(run: RunPaths) -> None:
    message = "RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed. "
    error = RankError(1, 0, 1.0, message, f"{TRACE}{message}\n", kinds=("RuntimeError",))
    fail(run, error)
    end = read_json(NodeEnd, run.attempt(1).node(0).end)
    write_json(run.attempt(1).node(0).end, replace(end, resources=Resources(oom_kills=0, host_oom_kills=0)))
    found, _ = explained(run, Cause.EXIT_CODE)
    assert (found.category, found.rule, found.confidence) == (Category.SIGNAL, "run_worker_killed", Confidence.UNKNOWN)
    assert found.changes


def test_a_rank_that_has_left_early_has_its_own_record_as_evidence(run: RunPaths) -> None:
    node = run.attempt(1).node(0)
    write_json(node.rank_end(1), RankEnd(1, 1.0))
    lost = "RuntimeError: Connection closed by peer"
    error = RankError(0, 0, 2.0, lost, TRACE, failure=RankFailure.LOST_PEER, kinds=("RuntimeError",))
    fail(run, error)
    found, (first, _) = explained(run, Cause.EXIT_CODE)
    assert (found.rule, first.rank) == ("run_left_early", 1)
    assert found.evidence == ("rank 1 recorded that its script had ended without an error",)
