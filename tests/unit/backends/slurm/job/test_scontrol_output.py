"""Output of several Slurm versions, shortened to what is parsed, with the names of people and clusters changed."""

from __future__ import annotations

import pytest

from fsdpctl.backends.slurm.job.scontrol_output import END_STATES, Job, parse_job, parse_nodes
from fsdpctl.contract.plan import AllocatedNode

# 22.05.8, from the testbed of this project: running, being preempted, requeued, cancelled.
DEBIAN_12 = """\
JobId=5 JobName=x
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=4294901752 Nice=0 Account=(null) QOS=(null)
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=1 Restarts={restarts} BatchFlag=1 Reboot=0 ExitCode=0:0
   SubmitTime=2026-11-27T23:45:58 EligibleTime=2026-11-27T23:45:58
   StartTime=2026-11-27T23:45:58 EndTime={end} Deadline=N/A
   {preempt}SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-27T23:45:58 Scheduler=Main
   ReqNodeList=(null) ExcNodeList={excluded}
   Comment=fsdpctl:x-1
   Power=
"""


def text(
    state: str,
    restarts: int = 0,
    preempt: str = "",
    reason: str = "None",
    excluded: str = "(null)",
    end: str = "Unknown",
) -> str:
    line = f"PreemptEligibleTime=2026-11-27T23:45:58 PreemptTime={preempt}\n   " if preempt else ""
    return DEBIAN_12.format(state=state, restarts=restarts, preempt=line, reason=reason, excluded=excluded, end=end)


@pytest.mark.parametrize(
    ("given", "job"),
    [
        (text("RUNNING", preempt="None"), Job("5", "RUNNING", "None", 0, False, "")),
        (text("RUNNING", preempt="2026-11-27T23:46:01"), Job("5", "RUNNING", "None", 0, True, "")),
        (text("COMPLETING", preempt="2026-11-27T23:46:01", end="2026-11-27T23:46:01"),
         Job("5", "COMPLETING", "None", 0, True, "", is_taken=True)),
        (text("COMPLETING", preempt="2026-11-27T23:46:01", end="2026-11-27T23:46:05"),
         Job("5", "COMPLETING", "None", 0, True, "")),
        (text("COMPLETING", restarts=1), Job("5", "COMPLETING", "None", 1, False, "")),
        (text("COMPLETING", preempt="None", reason="TimeLimit"), Job("5", "COMPLETING", "TimeLimit", 0, False, "")),
        (text("PENDING", 1, reason="BeginTime", excluded="node[2-3],node7"),
         Job("5", "PENDING", "BeginTime", 1, False, "node[2-3],node7")),
    ],
)  # fmt: skip
def test_jobs_of_the_testbed(given: str, job: Job) -> None:
    assert parse_job(given) == job


@pytest.mark.parametrize("state", ["COMPLETING", *END_STATES])
def test_a_job_in_an_end_state_is_ending(state: str) -> None:
    assert parse_job(text(state)).is_ending
    assert not parse_job(text("RUNNING")).is_ending


# 21.08: It4innovations/hyperqueue, a test in crates/hyperqueue/src/common/manager/slurm.rs (job of October 2021).
V21_08 = """\
JobId=4641914 JobName=bash
   UserId=someone(33646) GroupId=interactive(25200) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=0 Restarts=0 BatchFlag=0 Reboot=0 ExitCode=0:0
   StartTime=2021-10-07T11:15:26 EndTime=2021-10-07T11:30:26 Deadline=N/A
   PreemptEligibleTime=2021-10-07T11:15:26 PreemptTime=None
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2021-10-07T11:15:26 Scheduler=Main
   ReqNodeList=(null) ExcNodeList=(null)
"""
# 24.11 or newer (`TresPerJob=gres/...`): the user guide of Purdue's Gautschi cluster (job of February 2025).
V24_11 = """\
JobId=3519 JobName=job.sub
   UserId=someone GroupId=mygroup MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=0 Reboot=0 ExitCode=0:0
   AccrueTime=2025-02-24T14:31:19
   StartTime=2025-02-24T14:32:36 EndTime=2025-02-24T18:32:36 Deadline=N/A
   PreemptEligibleTime=2025-02-24T14:32:36 PreemptTime=None
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2025-02-24T14:32:36 Scheduler=Backfill
   ReqNodeList=(null) ExcNodeList=(null)
   TresPerJob=gres/hp_cpu=4
"""
# 25.05 or newer (`LicensesAlloc`): SlinkyProject/slurm-bridge, docs/quickstart.md (job of July 2025).
V25_05 = """\
JobId=1 JobName=job-sleep-single
   UserId=slurm(401) GroupId=slurm(401) MCS_label=kubernetes
   JobState=CANCELLED Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=0 Reboot=0 ExitCode=0:0
   StartTime=2025-07-10T15:52:53 EndTime=2025-07-10T15:53:01 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2025-07-10T15:52:53 Scheduler=Main
   ReqNodeList=(null) ExcNodeList=(null)
   StepMgrEnabled=Yes
   OverSubscribe=NO Contiguous=0 Licenses=(null) LicensesAlloc=(null) Network=(null)
"""


@pytest.mark.parametrize(("given", "state"), [(V21_08, "RUNNING"), (V24_11, "RUNNING"), (V25_05, "CANCELLED")])
def test_jobs_of_other_versions(given: str, state: str) -> None:
    job = parse_job(given)
    assert (job.state, job.reason, job.restarts, job.excluded) == (state, "None", 0, "")
    assert not job.is_preempted and not job.is_taken


def test_a_jobs_name_cannot_add_keys() -> None:
    hostile = text("RUNNING", preempt="None").replace(
        "JobName=x", "JobName=x JobState=COMPLETING Restarts=9 PreemptTime=2026-01-01T00:00:00 ExcNodeList=all"
    )
    assert parse_job(hostile) == parse_job(text("RUNNING", preempt="None"))


@pytest.mark.parametrize("given", ["", "slurm_load_jobs error: Invalid job id specified", "\0\n", "JobId=5\n"])
def test_anything_else_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="not what"):
        parse_job(given)


def test_nodes() -> None:
    text = (
        "NodeName=node1 Arch=x86_64 CoresPerSocket=1 \n   CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=3.43\n"
        "   NodeAddr=10.0.0.1 NodeHostName=node1-ib Port=17001 Version=22.05.8\n\n"
        "NodeName=node2 CoresPerSocket=1 \n   CPUTot=2\n   State=DOWN\n\n"
    )
    assert parse_nodes(text) == {
        "node1": AllocatedNode("node1", "10.0.0.1"),
        "node2": AllocatedNode("node2", "node2"),
    }
