"""`cancel` of a run of which little is left, and errors while a run is supervised."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.detached import control
from fsdpctl.backends.detached.__main__ import supervise
from fsdpctl.backends.local import launcher as local
from fsdpctl.backends.local.agents import LocalAgents
from fsdpctl.contract import Cause, Env, Phase, State, StopReason
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import create_once, request_stop
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.os import processes
from fsdpctl.runs.evidence import RunFacts, read_plan, read_verdict
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import claim_attempt, create
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.supervise import disk, loop
from fsdpctl.supervise.disk import begin_attempt
from fsdpctl.supervise.loop import Supervisor
from fsdpctl.verbs.state import derive_state
from fsdpctl.verbs.stop import ignore
from fsdpctl.verbs.submit import prepare
from tests.backends.harness import wait_for


@contextmanager
def process_of(run: RunPaths) -> Iterator[subprocess.Popen[str]]:
    """Start a process with the run's tag that waits."""
    script = "print(flush=True); input()"
    env = {**os.environ, Env.RUN_ID: run.root.name}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "\n"
        yield process
        process.kill()


def record_of(run: RunPaths) -> RunRecord:
    return RunRecord.new(run.root.name, "job", "local", "local", 1.0, 1)


def test_a_supervisor_that_is_exiting_is_not_a_run_to_cancel(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / f"ended-{os.getpid()}")
    attempt = run.attempt(1)
    attempt.root.mkdir(parents=True)
    write_json(run.record, record_of(run))
    write_json(attempt.verdict, Verdict(State.STOPPED, "stopped (user)"))
    with process_of(run) as supervisor:
        write_json(run.supervisor, processes.identify(supervisor.pid))
        assert not local.cancel(run, ignore)
        assert supervisor.poll() is None
        with process_of(run) as stray:
            assert local.cancel(run, ignore)
            assert stray.wait(10) < 0


def test_a_cancel_does_not_end_a_submission_that_began_after_it(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / f"resumed-{os.getpid()}")
    attempt = run.attempt(1)
    attempt.root.mkdir(parents=True)
    record = record_of(run)
    write_json(run.record, record)
    with process_of(run) as supervisor, ThreadPoolExecutor() as pool:
        write_json(run.supervisor, processes.identify(supervisor.pid))
        cancelled = pool.submit(local.cancel, run, ignore)
        wait_for(attempt.abort.exists, 10, "the request to cancel")
        resumed = Submission("resume", 2.0, 1, first_attempt=2)
        write_json(run.record, replace(record, submissions=(*record.submissions, resumed)))
        run.attempt(2).root.mkdir()
        assert cancelled.result(10)
        assert supervisor.poll() is None
        assert not run.attempt(2).abort.exists()


def test_a_supervisor_that_was_killed_before_a_restart_is_reported(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "due")
    attempt = run.attempt(1)
    attempt.root.mkdir(parents=True)
    write_json(run.record, record_of(run))
    write_json(attempt.verdict, Verdict(State.FAILED, "exit code 3", restart=True))
    with process_of(run) as supervisor:
        write_json(run.supervisor, processes.identify(supervisor.pid))
        assert local.observe([RunFacts(run)])["due"].state == "running"
    facts = RunFacts(run)
    found = derive_state(facts, local.observe([facts])["due"])
    assert (found.state, found.phase) == (State.FAILED, Phase.UNSUPERVISED)
    assert found.reason == "exit code 3; no supervisor any more to restart it; fsdpctl supervise due starts one"


def run_with(python: str, *overrides: str) -> RunPaths:
    """Return a run whose first attempt is not started yet."""
    request = prepare(load_profile("local"), load_job("llm-tiny", overrides))
    plan = replace(request.plan, python=python)
    record = RunRecord.new(plan.run_id, "llm-tiny", "local", "local", 1.0, 1)
    run = create(default_runs_root(), record, lambda run: write_json(run.plan, plan))
    claim_attempt(run)
    return run


def supervisor(run: RunPaths) -> Supervisor:
    return Supervisor(LocalAgents(run, read_plan(run)))


def test_a_missing_interpreter_fails_the_run_at_once_by_its_name(tmp_path: Path) -> None:
    run = run_with(str(tmp_path / "gone/python"))
    supervisor(run).work()
    verdict = read_verdict(run.attempt(1))
    assert verdict is not None
    assert verdict.state is State.FAILED
    assert verdict.reason == f"no agent can be started with {tmp_path}/gone/python: No such file or directory"


def test_a_supervisor_that_retries_starts_no_second_agent_while_setup_runs() -> None:
    run = run_with(sys.executable)
    agents = LocalAgents(run, replace(read_plan(run), setup=("sleep 60",)))
    tag = processes.Tag(run.root.name, 0)
    agents.start(run.attempt(1))
    try:
        wait_for(lambda: any(b"sleep" in processes.command_line(pid) for pid in processes.find(tag)), 10, "the setup")
        before = processes.find(tag)
        agents.start(run.attempt(1))
        assert processes.find(tag) == before
        assert not agents.is_over(run.attempt(1))
    finally:
        agents.end(run.attempt(1))
    wait_for(lambda: agents.is_over(run.attempt(1)), 10, "the end")


@pytest.mark.parametrize(("name", "cause", "state"), [("stop", "user", "STOPPED"), ("abort", "cancel", "CANCELLED")])
def test_a_stop_requested_while_hosts_are_checked_ends_the_run(
    name: str, cause: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with("/bin/false", "restarts=1")
    watching = supervisor(run)

    def prepare_slowly(attempt: AttemptPaths) -> list[str]:
        create_once(attempt.root / name, cause)
        return []

    monkeypatch.setattr(watching.agents, "prepare", prepare_slowly)
    watching.work()
    assert [attempt.number for attempt in run.attempts()] == [1]
    assert (verdict := read_verdict(run.attempt(1))) is not None
    assert verdict.state == state


def test_a_stop_of_an_attempt_that_is_just_followed_by_another_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written after the supervisor has looked for one, and before the next attempt is there."""
    run = run_with("/bin/false", "restarts=1")

    def begin(agents: LocalAgents, last: AttemptPaths) -> AttemptPaths:
        create_once(last.stop, "user", "fsdpctl stop")
        return begin_attempt(agents, last)

    monkeypatch.setattr(loop, "begin_attempt", begin)
    supervisor(run).work()
    assert [attempt.number for attempt in run.attempts()] == [1, 2]
    assert run.attempt(2).nodes() == []
    assert (verdict := read_verdict(run.attempt(2))) is not None and verdict.state is State.STOPPED


def test_a_stop_follows_a_run_to_its_newest_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunPaths(tmp_path / f"restarting-{os.getpid()}")
    run.attempt(1).root.mkdir(parents=True)
    write_json(run.record, record_of(run))

    def write_late(path: Path) -> None:
        if not run.attempt(2).root.exists():
            run.attempt(2).root.mkdir()
        request_stop(path)

    monkeypatch.setattr(control, "request_stop", write_late)
    with process_of(run) as running:
        write_json(run.supervisor, processes.identify(running.pid))
        assert control.stop(run)
    assert run.attempt(2).stop.exists()


def test_a_supervisor_outlives_a_full_disk_and_a_log_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def work(supervisor: Supervisor) -> None:
        looks.append(supervisor.run)
        if len(looks) < 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Supervisor, "work", work)
    monkeypatch.setattr(disk, "PAUSE_S", 0.0)
    run = run_with("/bin/false")
    with open("/dev/full", "wb", buffering=0) as full, redirect_stderr(io.TextIOWrapper(full, write_through=True)):
        supervise(run)
    assert len(looks) == 3


def test_a_run_that_was_stopped_before_it_began_is_never_started() -> None:
    run = run_with("/bin/false", "restarts=1")
    create_once(run.attempt(1).stop, "user")
    supervisor(run).work()
    assert [attempt.number for attempt in run.attempts()] == [1]
    assert run.attempt(1).nodes() == []
    assert (verdict := read_verdict(run.attempt(1))) is not None
    assert (verdict.state, verdict.reason) == (State.STOPPED, "stopped (user); no agent has reported how it ended")


@pytest.mark.parametrize("cause", StopReason)
def test_a_rank_that_is_killed_while_it_saves_for_a_stop_leaves_the_run_failed(
    cause: StopReason, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with("/bin/false", "restarts=3")
    watching = supervisor(run)
    killed = NodeEnd(1, "rank 0 ended with signal 9 (SIGKILL)", 0, cause=Cause.SIGNAL)

    def follow(attempt: AttemptPaths) -> None:
        create_once(attempt.stop, cause)
        write_json(attempt.node(0).end, killed)

    monkeypatch.setattr(watching.agents, "start", lambda attempt: attempt.node(0).root.mkdir())
    monkeypatch.setattr(watching, "_follow", follow)
    verdict = watching.work()
    assert verdict is not None and verdict == read_verdict(run.attempt(1))
    assert (verdict.state, verdict.restart, verdict.cause) == (State.FAILED, False, Cause.SIGNAL)
    assert verdict.reason == "node 0: rank 0 ended with signal 9 (SIGKILL)"
    assert [attempt.number for attempt in run.attempts()] == [1]


@pytest.mark.parametrize(("name", "cause"), [("stop", "user"), ("abort", "cancel")])
def test_a_requested_end_does_not_wait_for_a_verdict_that_cannot_be_written(
    name: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(attempt: AttemptPaths, verdict: Verdict) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(loop, "record_verdict", refuse)
    run = run_with("/bin/false", "restarts=1")
    with pytest.raises(OSError, match="No space left"):  # it is tried again, once there is space
        supervisor(run).work()
    create_once(run.attempt(1).root / name, cause)
    supervisor(run).work()
    assert [attempt.number for attempt in run.attempts()] == [1]


def test_a_run_that_ends_at_once_does_not_kill_the_starter_of_its_supervisor(tmp_path: Path) -> None:
    """The starter of a supervisor has the run's tag, too; here it would be slow to exit."""
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text("import atexit, time\natexit.register(time.sleep, 3)\n")
    run = run_with("/bin/false")
    argv = [sys.executable, "-m", "fsdpctl.backends.detached", str(run.root)]
    env = {**os.environ, Env.RUN_ID: run.root.name, "PYTHONPATH": str(slow), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
