from __future__ import annotations

from collections.abc import Collection

from fsdpctl.backends.slurm.accounting import Accounts, parse_accounts
from fsdpctl.backends.slurm.job.scontrol import SlurmError
from fsdpctl.backends.slurm.queue import QueuedJob

# 22.05.8 with MariaDB 10.11, from the testbed of this project: a job id that was given out twice.
TEXT = """\
7|CANCELLED by 0|0:15|2026-11-28T03:50:06|/runs/a b|c/llm-aaaa
7|COMPLETED|0:0|2026-11-28T04:10:11|/home/alice
8|FAILED|0:53|2026-11-28T04:10:11|/runs/llm-bbbb
9_1|COMPLETED|0:0|2026-11-28T04:10:11|/runs/.arrays/lr-cccc
"""


def job(job_id: str, state: str, submitted: str, owner: str, reason: str = "") -> QueuedJob:
    return QueuedJob(job_id, state, reason, "", submitted, owner)


def test_accounts_are_read_line_by_line() -> None:
    assert parse_accounts(TEXT) == [
        job("7", "CANCELLED", "2026-11-28T03:50:06", "llm-aaaa"),
        job("7", "COMPLETED", "2026-11-28T04:10:11", "alice"),
        job("8", "FAILED", "2026-11-28T04:10:11", "llm-bbbb", "JobLaunchFailure"),
        job("9_1", "COMPLETED", "2026-11-28T04:10:11", "lr-cccc/1"),
    ]
    assert parse_accounts("") == parse_accounts("Slurm accounting storage is disabled\n7||\n7||||/x\n") == []


def test_each_job_is_queried_once_and_rarely() -> None:
    clock, asked = [100.0], []

    def ask(job_ids: Collection[str]) -> list[QueuedJob]:
        asked.append((clock[0], sorted(job_ids)))
        if clock[0] == 110:
            raise SlurmError("disabled")
        return [known for known in parse_accounts(TEXT) if known.job_id in job_ids]

    accounts = Accounts(ask, clock=lambda: clock[0])
    assert [known.job_id for known in accounts.jobs(["7", "9"])] == ["7", "7"]
    assert accounts.jobs(["8"]) == [], "too soon"
    clock[0] += 2
    assert [known.job_id for known in accounts.jobs(["8", "9"])] == ["8"]
    clock[0] = 110
    assert accounts.jobs(["10", "8"]) == accounts.jobs(["8"])
    clock[0] += 59
    accounts.jobs(["10"])
    assert asked == [(100.0, ["7", "9"]), (102.0, ["8"]), (110, ["10"])]
