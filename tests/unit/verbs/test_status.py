"""The status of a run while a newer attempt begins: without the steps that it may have to do again."""

from __future__ import annotations

import json
import os
import shutil
import socket
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from fsdpctl.backends.base import View
from fsdpctl.cli.app import build_app
from fsdpctl.contract import Phase, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.contract.records import Outcome
from fsdpctl.node.os.processes import identify
from fsdpctl.run_report.read import read_facts
from fsdpctl.runs.evidence import AttemptFacts, RunFacts
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create, open_record
from fsdpctl.runs.verdict import Verdict
from fsdpctl.verbs.status import lines_of, read_status, status_by


def lines(attempt: int, *steps: int) -> list[dict[str, Any]]:
    return [
        {"step": step, "loss": 1 / step, "time": 2.0 * step, "tokens": step * 64, "attempt": attempt} for step in steps
    ]


def write_lines(run: RunPaths, written: list[dict[str, Any]]) -> None:
    run.metrics.write_text("".join(f"{json.dumps(line)}\n" for line in written))


@pytest.fixture
def run() -> RunPaths:
    """Return a run that finished at step 21, and went back to step 7; this process is its second attempt's agent."""

    def fill(run: RunPaths) -> None:
        write_json(run.trainer_config, {"steps": 21})
        write_lines(run, lines(1, *range(1, 22)))
        (run.checkpoints / checkpoint_name(7)).mkdir(parents=True)
        (run.checkpoints / "set-aside-1" / checkpoint_name(21)).mkdir(parents=True)
        for number in (1, 2):
            run.attempt(number).node(0).root.mkdir(parents=True)
        write_json(run.attempt(1).outcome, Outcome("finished", 21, checkpoint_name(21)))
        write_json(run.attempt(1).verdict, Verdict(State.SUCCEEDED, "finished at step 21"))
        write_json(run.attempt(2).node(0).agent, identify(os.getpid()))

    record = RunRecord.new("r-aaaa", "r", "local", "local", 1.0, 1)
    record = replace(record, submissions=(*record.submissions, Submission("resume", 2.0, 1, 2)))
    return create(default_runs_root(), record, fill)


def test_an_attempt_without_a_line_has_no_step_of_an_older_one(run: RunPaths) -> None:
    status = read_status(run)
    assert (status.state, status.reason) == (State.RUNNING, "training, attempt 2; continues from step 7")
    assert (status.attempt, status.step, status.loss, status.speed, status.outcome) == (2, None, None, None, None)
    assert status.hosts == (socket.gethostname(),)
    assert status.begins_at == 7


def test_what_a_script_had_done_before_a_resume_is_known(run: RunPaths) -> None:
    run.trainer_config.unlink()
    shutil.rmtree(run.checkpoints)
    status = read_status(run)
    assert (status.step, status.begins_at) == (None, 21)
    printed = CliRunner().invoke(build_app("status"), ["status", "r-aaaa"]).stdout
    assert "progress   step 21 before; no step of this attempt yet\n" in printed


def test_from_its_first_line_on_an_attempt_shows_its_own_steps(run: RunPaths) -> None:
    write_lines(run, [*lines(1, *range(1, 8)), *lines(2, 8)])
    status = read_status(run)
    assert (status.reason, status.step, status.loss) == ("training, attempt 2", 8, 1 / 8)


def test_a_step_without_a_loss_shows_the_last_one(run: RunPaths) -> None:
    last = lines(2, 8)[0]
    write_lines(run, [*lines(2, *range(1, 8)), {name: value for name, value in last.items() if name != "loss"}])
    status = read_status(run)
    assert (status.step, status.loss, status.is_loss_finite) == (8, 1 / 7, True)


def test_an_attempt_that_ends_does_not_show_where_it_begins(run: RunPaths) -> None:
    run.attempt(2).stop.write_text("user")
    assert read_status(run).reason == "stopping (user): saving, then leaving"
    run.trainer_config.unlink()
    assert read_status(run).reason == "stopping (user): the script was asked to exit, its `grace` runs"


@pytest.mark.parametrize("view", [View("queued", "Priority"), View("running")])
def test_before_the_attempt_of_a_resume_no_step_is_shown(run: RunPaths, view: View) -> None:
    run.attempt(2).node(0).agent.unlink()
    run.attempt(2).node(0).root.rmdir()
    run.attempt(2).root.rmdir()
    status = status_by(RunFacts(run, open_record(run)), view)
    reason = view.reason or "starting; continues from step 7"
    assert (status.reason, status.attempt, status.step, status.outcome) == (reason, 1, None, None)


NO_ANSWER = View("unknown", "Slurm does not answer: down", job_id="7")


def test_a_job_that_runs_shows_what_a_local_run_shows_and_that_slurm_does_not_answer(run: RunPaths) -> None:
    def reason(view: View) -> str:
        return status_by(RunFacts(run, open_record(run)), view).reason

    training = "training, attempt 2"
    assert reason(View("running", job_id="7")) == f"{training}; continues from step 7"
    assert reason(NO_ANSWER) == f"{training}; Slurm does not answer: down; continues from step 7"
    paused = status_by(RunFacts(run, open_record(run)), View("running", "paused", phase=Phase.SUSPENDED, job_id="7"))
    assert (paused.state, paused.phase, paused.reason) == (State.RUNNING, Phase.SUSPENDED, "paused")
    run.attempt(2).stop.write_text("user")
    assert reason(View("running", job_id="7")) == "stopping (user): saving, then leaving"


def test_a_run_that_was_requeued_is_alive_while_slurm_does_not_answer(run: RunPaths) -> None:
    write_json(run.attempt(2).verdict, Verdict(State.STOPPED, "preempted", restart=True))
    status = status_by(RunFacts(run, open_record(run)), NO_ANSWER)
    assert (status.state, status.reason) == (
        State.RESTARTING,
        "after attempt 2: preempted; Slurm does not answer: down",
    )


def test_job_id_and_hosts_stay_after_the_end(run: RunPaths) -> None:
    write_json(run.attempt(2).verdict, Verdict(State.FAILED, "no GPU", hosts=("node1", "node2")))
    for view in (View("none", job_id="7"), NO_ANSWER):
        status = status_by(RunFacts(run, open_record(run)), view)
        assert (status.state, status.reason) == (State.FAILED, "no GPU")
        assert (status.job_id, status.hosts) == ("7", ("node1", "node2"))


def test_a_node_without_an_agent_moves_no_host_to_another_rank(run: RunPaths) -> None:
    """As over SSH, where the start of node 0 failed. The empty name is shown nowhere."""
    host, attempt = socket.gethostname(), run.attempt(2)
    attempt.node(1).root.mkdir()
    attempt.node(0).agent.rename(attempt.node(1).agent)
    assert AttemptFacts(attempt).hosts == ("", host)
    looks = {"status": ["status"], "ls": ["ls"], "top": ["top", "--json"]}
    shown = {name: CliRunner().invoke(build_app(name), words).stdout for name, words in looks.items()}
    assert f"nodes      1: {host}\n" in shown["status"], shown
    assert f"  {host}  " in shown["ls"], shown
    assert [node["host"] for node in json.loads(shown["top"])[0]["nodes"]] == [None, host]
    assert [node.host for node in read_facts(run, read_status(run), is_brief=True).nodes] == [None, host]


def test_a_run_that_restarts_shows_its_last_step(run: RunPaths) -> None:
    write_json(run.attempt(2).verdict, Verdict(State.FAILED, "killed", restart=True))
    write_lines(run, [*lines(1, *range(1, 8)), *lines(2, 8, 9)])
    status = status_by(RunFacts(run, open_record(run)), View("running"))
    assert (status.state, status.step) == (State.RESTARTING, 9)


def test_a_run_that_has_ended_shows_its_last_step(run: RunPaths) -> None:
    write_json(run.attempt(2).verdict, Verdict(State.FAILED, "no GPU"))
    status = read_status(run)
    assert (status.state, status.step, status.loss) == (State.FAILED, 21, 1 / 21)


@pytest.mark.parametrize("known", [{}, {"attempt": 2}, {"attempt": "2"}])
def test_lines_of_a_users_script_need_no_attempt(known: dict[str, Any]) -> None:
    line = {"step": 3, **known}
    assert lines_of([line], 2) == [line]
    assert lines_of([{"step": 3, "attempt": 1}], 2) == []
