from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.backends.base import View
from fsdpctl.backends.slurm.job.scontrol import SlurmError
from fsdpctl.backends.slurm.queue import Queue, QueuedJob, parse_queue, view_job
from fsdpctl.backends.slurm.sbatch import UncertainError, error_line, parse_job_id
from fsdpctl.contract import Phase, State
from fsdpctl.contract.paths import RunPaths

TEXT = """\
12|PENDING|Resources|2026-11-28T10:00:00|2026-11-28T01:00:00|fsdpctl:llm-aaaa
13|RUNNING|None|2026-11-28T01:00:01|2026-11-28T01:00:00|fsdpctl:llm-bbbb
14|RUNNING|None|2026-11-28T01:00:01|2026-11-28T01:00:00|my own | comment
15|PENDING|ReqNodeNotAvail, May be reserved for other job|N/A|2026-11-28T01:00:00|
16_0|RUNNING|None|2026-11-28T01:00:01|2026-11-28T01:00:00|fsdpctl:lr-cccc
16_1|PENDING|JobArrayTaskLimit|N/A|2026-11-28T01:00:00|fsdpctl:lr-cccc
slurm_load_jobs error: something else
"""


def test_a_queue_is_read_line_by_line() -> None:
    jobs = parse_queue(TEXT)
    assert [(job.job_id, job.owner) for job in jobs] == [
        ("12", "llm-aaaa"),
        ("13", "llm-bbbb"),
        ("14", ""),
        ("15", ""),
        ("16_0", "lr-cccc/0"),
        ("16_1", "lr-cccc/1"),
    ]
    assert parse_queue("") == parse_queue("\x1b[2J|||\n") == []


def job(state: str, reason: str = "None", start: str = "N/A") -> QueuedJob:
    return QueuedJob("7", state, reason, start, "2026-11-28T01:00:00", "llm-aaaa")


@pytest.mark.parametrize(
    ("given", "view"),
    [
        (job("PENDING", "Resources", "2026-11-28T10:00:00"),
         View("queued", "job 7: Resources (the nodes are in use), expected to start 2026-11-28 10:00:00", job_id="7")),
        (job("PENDING", "BeginTime"),
         View("queued", "job 7: BeginTime (Slurm delays a requeued job for about two minutes)", job_id="7")),
        (job("PENDING", "ReqNodeNotAvail, May be reserved for other job"),
         View("queued", "job 7: ReqNodeNotAvail, May be reserved for other job"
                        " (a requested node is not available)", job_id="7")),
        *((job("PENDING", reason, reason), View("queued", "job 7: Slurm has not looked at the job yet", job_id="7"))
          for reason in ("None", "(null)", "N/A", "")),
        (job("PENDING", "QOSGrpGRES"), View("queued", "job 7: QOSGrpGRES", job_id="7")),
        (job("PENDING", "DependencyNeverSatisfied"),
         View("queued", "job 7: DependencyNeverSatisfied (a job that it waits for has failed or is gone); it never"
                        " starts: `fsdpctl cancel` removes it", job_id="7")),
        (job("RUNNING"), View("running", job_id="7")),
        (job("COMPLETING"), View("running", job_id="7")),
        (job("A_STATE_OF_SLURM_27"), View("running", job_id="7")),
        (job("SUSPENDED"), View("running", "job 7 is SUSPENDED in Slurm: its processes are paused until Slurm resumes"
                                           " it", phase=Phase.SUSPENDED, job_id="7")),
        (job("CANCELLED"), View("none", "job 7 is CANCELLED in Slurm; see batch.log", State.CANCELLED, job_id="7")),
        (job("NODE_FAIL"), View("none", "job 7 is NODE_FAIL in Slurm; see batch.log", State.FAILED, job_id="7")),
        (job("PREEMPTED"), View("none", "job 7 was preempted, and Slurm does not requeue it: `fsdpctl resume` continues"
                                        " the run", State.STOPPED, is_stranded=True, job_id="7")),
        (job("COMPLETED"), View("none", "job 7 is COMPLETED in Slurm; see batch.log", State.LOST, job_id="7")),
    ],
)  # fmt: skip
def test_a_job_as_a_state_of_its_run(given: QueuedJob, view: View, run: RunPaths) -> None:
    assert view_job(given, run) == view


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    run = RunPaths(tmp_path)
    run.code.mkdir()
    run.batch_log.touch()
    return run


@pytest.mark.parametrize("reason", ["JobLaunchFailure", "RaisedSignal:53(Real-time_signal_19)"])
def test_a_job_whose_node_does_not_see_the_run_directory(reason: str, run: RunPaths) -> None:
    view = view_job(job("FAILED", reason), run)
    assert view.final is State.FAILED
    assert f"its node does not see {run.root}" in view.reason
    assert "batch.log" not in view.reason


def test_a_failed_job_names_the_missing_code_and_no_log_that_is_not_there(run: RunPaths) -> None:
    run.batch_log.unlink()
    assert view_job(job("FAILED"), run).reason == "job 7 is FAILED in Slurm"
    run.code.rmdir()
    assert f"the run's code is missing, {run.code}" in view_job(job("FAILED"), run).reason


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


def test_a_number_in_a_banner_is_no_job_id() -> None:
    banner = "Notice: your last job 3 used 1% of its GPUs\n"
    assert parse_job_id(f"{banner}Submitted batch job 71\n") == "71"
    assert parse_job_id("Submitted batch job 71 on cluster a\nbye\n") == "71"
    for output in (banner, "", f"{banner}not Submitted batch job 7"):
        with pytest.raises(UncertainError, match="without a job id"):
            parse_job_id(output)


def test_errors_of_sbatch_are_one_line() -> None:
    assert error_line("sbatch: error: a\nsbatch: note\n\nsbatch: error: Batch job submission failed: b\n") == (
        "a; Batch job submission failed: b"
    )
    assert error_line("sbatch: unrecognized option '--foo'\nTry \"sbatch --help\" for more information\n") == (
        "unrecognized option '--foo'"
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
