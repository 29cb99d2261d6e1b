"""A rank that no signal interrupts, as in a collective of NCCL whose peer has died, holds up no restart."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fsdpctl.contract.codec import read_json
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.agent.rank_watch import rank_processes
from fsdpctl.node.agent.running_ranks import TERM_S
from fsdpctl.node.os.processes import Tag
from tests.backends.hangs import JOB
from tests.backends.harness import fsdpctl, submit
from tests.services import require


@pytest.mark.timeout(300)
def test_a_rank_that_does_not_end_at_term_is_killed_soon(tmp_path: Path) -> None:
    require("torch")
    (tmp_path / "job.yaml").write_text(JOB)
    run = submit("./job.yaml", "--nodes", "2", "--set", "trainer.steps=100000", cwd=tmp_path)
    run.wait_attempt_steps(1, 2)
    os.kill(rank_processes(Tag(run.run_id, 0))[0], signal.SIGSTOP)
    os.kill(rank_processes(Tag(run.run_id, 1))[1], signal.SIGKILL)
    run.wait_attempt_steps(2, 1)
    fsdpctl("cancel", run.run_id, cwd=tmp_path)
    attempt = run.paths.attempt(1)
    seconds = read_json(NodeEnd, attempt.node(0).end).time - attempt.abort.stat().st_mtime
    assert seconds < TERM_S, "the time that a script gets"
