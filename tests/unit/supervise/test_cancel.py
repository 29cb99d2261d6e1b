"""What a cancelled run becomes if a node never confirms that nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract import AbortReason, Cause, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import create_once
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.evidence import read_verdict
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.supervise import loop
from fsdpctl.supervise.agents import Agents
from fsdpctl.supervise.loop import Supervisor


class Nodes(Agents):
    """Nodes on which nothing starts; `left`: what they answer to each request to end."""

    left: tuple[str, ...] = ()

    def start(self, attempt: AttemptPaths) -> None: ...

    def is_over(self, attempt: AttemptPaths) -> bool:
        return True

    def end(self, attempt: AttemptPaths, *, is_last: bool = True) -> list[str]:
        return list(self.left)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    run = RunPaths(tmp_path)
    run.attempt(1).root.mkdir(parents=True)
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), SubmitHost("r", str(tmp_path), "/", "python3", ()))
    write_json(run.record, RunRecord.new("r", "r", "local", "local", 1.0, 1))
    write_json(run.plan, plan)
    for limit in ("CANCEL_CONFIRM_S", "END_CONFIRM_S", "PAUSE_S"):
        monkeypatch.setattr(loop, limit, 0.0)
    return Nodes(run, plan)


@pytest.mark.parametrize("left", [(), ("b: no answer for 9 s",)])
@pytest.mark.parametrize("is_running", [True, False])
def test_a_cancel_that_is_not_confirmed_leaves_a_lost_run(
    is_running: bool, left: tuple[str, ...], nodes: Nodes
) -> None:
    nodes.left = left
    if not is_running:  # between two attempts
        write_json(nodes.run.attempt(1).verdict, Verdict(State.FAILED, "rank 0 broke", restart=True))
    create_once(nodes.run.attempt(1).abort, AbortReason.CANCEL, "fsdpctl cancel")
    Supervisor(nodes).work()
    verdict = read_verdict(nodes.run.attempt(1))
    assert verdict is not None and verdict.cause is Cause.CANCEL and not verdict.restart
    assert verdict.state is (State.LOST if left else State.CANCELLED)
    assert verdict.reason == "; not confirmed that nothing is left: ".join(("fsdpctl cancel", *left))


def test_what_is_left_after_another_end_changes_no_verdict(nodes: Nodes) -> None:
    nodes.left = ("b: no answer for 9 s",)
    create_once(nodes.run.attempt(1).stop, "user", "fsdpctl stop")
    Supervisor(nodes).work()
    verdict = read_verdict(nodes.run.attempt(1))
    assert verdict is not None and verdict.state is State.STOPPED
