"""A run that cannot be read for a while, because its file server is down."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import typer

from fsdpctl.cli import follow
from fsdpctl.cli.follow import wait_for_end
from fsdpctl.cli.stop import stop
from fsdpctl.client import Run
from fsdpctl.contract import State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import FsdpctlError
from fsdpctl.node.os import processes
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from fsdpctl.runs.verdict import Verdict
from fsdpctl.verbs.status import read_status
from fsdpctl.verbs.watch import PATIENCE_S, Observation, watch


class Server:
    """The disk of a run that is alive, and a clock that runs one step of a script at each pause."""

    def __init__(self, run: RunPaths) -> None:
        self.run, self.now = run, 0.0
        self.script: list[Callable[[], object]] = []

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.script:
            self.script.pop(0)()

    def leave(self) -> None:
        self.run.record.rename(self.run.record.with_suffix(".away"))
        self.run.record.mkdir()

    def come_back(self) -> None:
        self.run.record.rmdir()
        self.run.record.with_suffix(".away").rename(self.run.record)

    def end(self) -> None:
        write_json(self.run.attempt(1).verdict, Verdict(State.SUCCEEDED, "finished at step 4"))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    record = RunRecord.new("llm-aaaa", "llm", "local", "local", 1.0, 1)
    run = create(default_runs_root(), record, lambda run: None)
    node = run.attempt(1).node(0)
    node.root.mkdir(parents=True)
    write_json(node.agent, processes.identify(os.getpid()))
    server = Server(run)
    monkeypatch.setattr(time, "sleep", server.sleep)
    monkeypatch.setattr(time, "monotonic", lambda: server.now)
    return server


def test_watching_continues_once_the_run_can_be_read_again(server: Server) -> None:
    server.script = [server.leave, lambda: None, server.come_back, server.end]
    observations = list(watch(server.run))
    assert [bool(observed.problem) for observed in observations] == [False, True, True, False, False]
    assert "not a regular file" in observations[1].problem
    assert observations[1].status == observations[0].status
    assert observations[-1].status.state is State.SUCCEEDED


def test_watching_gives_up_after_long_failures(server: Server) -> None:
    server.script = [server.leave]
    with pytest.raises(FsdpctlError, match="run llm-aaaa cannot be read"):
        list(watch(server.run))
    assert PATIENCE_S < server.now < PATIENCE_S + 2
    with pytest.raises(FsdpctlError, match="run llm-aaaa cannot be read"):
        next(watch(server.run))


def test_the_time_limit_starts_again_with_each_failure(server: Server) -> None:
    pause = [lambda: None] * int(PATIENCE_S * 3)  # of four pauses a second
    server.script = [server.leave, *pause, server.come_back, server.leave, *pause, server.come_back, server.end]
    assert [observed.status.state for observed in watch(server.run)][-1] is State.SUCCEEDED


def test_a_follower_sees_that_the_state_is_unknown(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    pause = [lambda: None] * 40
    server.script = [*pause, server.leave, *pause, server.come_back, *pause, server.end]
    assert wait_for_end(server.run) == 0
    printed = capsys.readouterr().err.splitlines()
    assert printed[0] == "llm-aaaa  RUNNING  training"
    assert any(
        line.startswith("llm-aaaa  state unknown for now: run llm-aaaa cannot be read") for line in printed[1:-2]
    )
    assert printed[-3] == "llm-aaaa  RUNNING  training"
    assert printed[-1] == "llm-aaaa SUCCEEDED: finished at step 4"


def test_a_stop_is_requested_again_while_slurm_has_requeued_the_job(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alive = read_status(server.run)
    states, asked = [State.RUNNING, State.QUEUED, State.QUEUED, State.STOPPED], []
    monkeypatch.setattr(follow, "watch", lambda _: [Observation(replace(alive, state=state)) for state in states])
    monkeypatch.setattr("fsdpctl.verbs.stop.stop", lambda run, *_: asked.append(run) is None)
    with pytest.raises(typer.Exit) as ended:
        stop("llm-aaaa")
    assert ended.value.exit_code == 0
    assert asked == [server.run] * 3
    assert capsys.readouterr().err.count("was asked to save and exit") == 1


def test_a_time_limit_holds_while_the_run_cannot_be_read(server: Server) -> None:
    server.script = [server.leave]
    with pytest.raises(TimeoutError, match=r"RUNNING after 20 s: .*not a regular file"):
        Run(server.run).wait(20)
    assert 20 < server.now < 22
