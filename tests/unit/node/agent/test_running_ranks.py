"""What the agent does while torchrun runs, and what it records at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract import Cause
from fsdpctl.contract.node_report import NodeReport
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.agent import exit_status
from fsdpctl.node.agent.running_ranks import RunningRanks
from fsdpctl.node.agent.stop import TimeLimit
from fsdpctl.specs.load import parse_job, parse_profile
from tests.unit.node.agent.test_exit_status import REPORT

PLAN = build_plan(
    parse_profile("name: p\nbackend: local\n", "p"),
    parse_job("name: j\nentrypoint: {script: s.py}\n", "j"),
    SubmitHost("j-abcd", "/runs/j-abcd", "/here", "python3", ()),
)


class EndedTorchrun:
    pid = 0

    def poll(self) -> int:
        return 1

    def wait(self, timeout: float | None = None) -> int:
        return 1


def running_ranks(attempt: AttemptPaths) -> RunningRanks:
    return RunningRanks(
        PLAN,
        attempt,
        0,
        EndedTorchrun(),
        report=lambda ranks: NodeReport(ranks=ranks),
        time_limit=TimeLimit(PLAN, attempt, 0),
        beat=lambda look=None: None,
        sweep=lambda *spare, term_s=0.0: [],
    )


def test_the_report_of_torchrun_is_read_again_after_an_error_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = RunPaths(tmp_path).attempt(1)
    attempt.node(0).root.mkdir(parents=True)
    attempt.node(0).torchrun_log.write_text(REPORT)
    errors, read = [OSError(116, "Stale file handle")], exit_status.read_tail

    def read_late(path: Path, limit: int) -> bytes:
        if errors:
            raise errors.pop()
        return read(path, limit)

    monkeypatch.setattr(exit_status, "read_tail", read_late)
    end: NodeEnd = running_ranks(attempt).follow()
    assert (end.failed_rank, end.cause) == (3, Cause.SIGNAL)
