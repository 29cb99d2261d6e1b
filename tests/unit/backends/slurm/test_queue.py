from __future__ import annotations

import pytest

from fsdpctl.backends.base import View
from fsdpctl.backends.slurm.job.scontrol import SlurmError
from fsdpctl.backends.slurm.queue import Queue, QueuedJob, parse_queue, view_job
from fsdpctl.backends.slurm.sbatch import error_line
from fsdpctl.contract import State

TEXT = """\
12|PENDING|Resources|2026-11-28T10:00:00|2026-11-28T01:00:00|fsdpctl:llm-aaaa
13|RUNNING|None|2026-11-28T01:00:01|2026-11-28T01:00:00|fsdpctl:llm-bbbb
14|RUNNING|None|2026-11-28T01:00:01|2026-11-28T01:00:00|my own | comment
15|PENDING|ReqNodeNotAvail, May be reserved for other job|N/A|2026-11-28T01:00:00|
slurm_load_jobs error: something else
"""


def test_a_queue_is_read_line_by_line() -> None:
    jobs = parse_queue(TEXT)
    assert [(job.job_id, job.run_id) for job in jobs] == [
        ("12", "llm-aaaa"),
        ("13", "llm-bbbb"),
        ("14", ""),
        ("15", ""),
    ]
    assert parse_queue("") == parse_queue("\x1b[2J|||\n") == []


def job(state: str, reason: str = "None", start: str = "N/A") -> QueuedJob:
    return QueuedJob("7", state, reason, start, "2026-11-28T01:00:00", "llm-aaaa")


@pytest.mark.parametrize(
    ("given", "view"),
    [
        (job("PENDING", "Resources", "2026-11-28T10:00:00"),
         View("queued", "job 7: Resources (the nodes are in use), expected to start 2026-11-28 10:00:00")),
        (job("PENDING", "BeginTime"),
         View("queued", "job 7: BeginTime (Slurm delays a requeued job for about two minutes)")),
        (job("PENDING", "ReqNodeNotAvail, May be reserved for other job"),
         View("queued", "job 7: ReqNodeNotAvail, May be reserved for other job"
                        " (a requested node is not available)")),
        (job("PENDING", "None"), View("queued", "job 7: Slurm has not looked at the job yet")),
        (job("PENDING", "QOSGrpGRES"), View("queued", "job 7: QOSGrpGRES")),
        (job("RUNNING"), View("running", "job 7")),
        (job("COMPLETING"), View("running", "job 7")),
        (job("A_STATE_OF_SLURM_27"), View("running", "job 7")),
        (job("CANCELLED"), View("none", "job 7 is CANCELLED in Slurm; see batch.log", State.CANCELLED)),
        (job("NODE_FAIL"), View("none", "job 7 is NODE_FAIL in Slurm; see batch.log", State.FAILED)),
        (job("PREEMPTED"), View("none", "job 7 was preempted, and Slurm does not requeue it: `fsdpctl resume` continues"
                                        " the run", State.STOPPED, is_stranded=True)),
        (job("COMPLETED"), View("none", "job 7 is COMPLETED in Slurm; see batch.log", State.LOST)),
    ],
)  # fmt: skip
def test_a_job_as_a_state_of_its_run(given: QueuedJob, view: View) -> None:
    assert view_job(given) == view


def test_many_queries_are_one_and_fewer_while_slurm_is_down() -> None:
    clock, asked = [100.0], []
    answers = iter([[], SlurmError("down"), SlurmError("down"), [job("RUNNING")]])

    def ask() -> list[QueuedJob]:
        asked.append(clock[0])
        answer = next(answers)
        if isinstance(answer, SlurmError):
            raise answer
        return answer

    queue = Queue(ask, clock=lambda: clock[0])
    known = []
    for _ in range(16):
        try:
            known.append(len(queue.jobs()))
        except SlurmError:
            known.append(-1)
        clock[0] += 1
    assert asked == [100.0, 102.0, 106.0, 114.0]
    assert known == [0] * 2 + [-1] * 12 + [1] * 2


def test_errors_of_sbatch_are_one_line() -> None:
    assert error_line("sbatch: error: a\nsbatch: note\n\nsbatch: error: Batch job submission failed: b\n") == (
        "a; Batch job submission failed: b"
    )
    assert error_line("odd\n") == "odd"
    assert error_line("") == "sbatch failed without a message"


def test_a_refresh_waits_if_an_answer_was_just_given() -> None:
    clock, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    queue = Queue(lambda: [], clock=lambda: clock[0], sleep=sleep)
    for _ in range(2):
        queue.refresh()
        clock[0] += 0.5
    clock[0] += 60
    queue.refresh()
    assert slept == [0.0, 1.5, 0.0]
