"""The process that reads the progress of a script, as an agent starts it, with real posts and a real log."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.trainer_server import SERVER_TOKEN, SERVER_URL
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.agent.progress_watch import STALE_S, ProgressWatch
from fsdpctl.node.os import processes
from fsdpctl.specs.load import parse_job, parse_profile
from tests.backends.harness import wait_for
from tests.services import require

JOB = r"""
name: mine
entrypoint: {script: train.py}
progress_regex: 'step (?P<step>\d+) loss (?P<loss>\S+)'
"""
LIMIT_S = 30


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    run = RunPaths(tmp_path)
    host = SubmitHost("mine-aaaa", str(tmp_path), "/here", "python3", ())
    write_json(run.plan, build_plan(parse_profile("name: local\nbackend: local", "p"), parse_job(JOB, "j"), host))
    run.attempt(1).node(0).root.mkdir(parents=True)
    return run.attempt(1)


@pytest.fixture
def watch(attempt: AttemptPaths) -> Iterator[ProgressWatch]:
    watch = ProgressWatch(attempt)
    yield watch
    watch.close()


def lines(attempt: AttemptPaths) -> list[dict[str, Any]]:
    metrics = RunPaths(attempt.run_dir).metrics
    return [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []


def post(env: dict[str, str], body: bytes, token: str | None = None) -> int:
    token = Path(env[SERVER_TOKEN]).read_text() if token is None else token
    request = urllib.request.Request(env[SERVER_URL], body, {"Authorization": f"Bearer {token}"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def report_of(step: int) -> bytes:
    metrics = [{"name": "current_step", "value": str(step)}, {"name": "total_steps", "value": "9"}]
    return json.dumps({"trainerStatus": {"metrics": metrics}}).encode()


def test_posts_and_lines_become_steps_and_the_last_ones_are_not_lost(
    attempt: AttemptPaths, watch: ProgressWatch
) -> None:
    log, env = attempt.node(0).rank_log(0), watch.rank_env({})
    log.write_text("step 1 loss 4.0\n")
    wait_for(lambda: watch.look() == 1, LIMIT_S, "the step of the log")
    assert post(env, report_of(2)) == 200
    wait_for(lambda: watch.look() == 2, LIMIT_S, "the step of the post")
    log.write_text("step 1 loss 4.0\nstep 3 loss 3.0\n")  # a Trainer's posts come first
    assert post(env, report_of(9)) == 200
    watch.close()
    found = [(line["step"], line.get("loss"), line.get("total"), line["attempt"]) for line in lines(attempt)]
    assert found == [(1, 4.0, None, 1), (2, None, 9, 1), (9, None, 9, 1)]
    assert not attempt.node(0).trainer_token.exists()


def test_the_server_takes_posts_with_the_token_only_and_of_bounded_size(
    attempt: AttemptPaths, watch: ProgressWatch
) -> None:
    env = watch.rank_env({})
    assert env[SERVER_URL].startswith("http://127.0.0.1:")
    assert stat.S_IMODE(Path(env[SERVER_TOKEN]).stat().st_mode) == 0o600
    token = Path(env[SERVER_TOKEN]).read_text()
    arguments = (processes.PROC / str(watch.pid) / "cmdline").read_bytes()
    assert len(token) > 30 and token.encode() not in arguments
    assert [post(env, report_of(5), "wrong"), post(env, report_of(5), "")] == [401, 401]
    assert post(env, b"x" * 100_000) == 413
    assert post(env, b"no report") == 200
    assert post(env, report_of(3)) == 200
    wait_for(lambda: watch.look() is not None, LIMIT_S, "a step")
    assert [line["step"] for line in lines(attempt)] == [3]


def test_a_client_that_sends_nothing_delays_no_other(attempt: AttemptPaths, watch: ProgressWatch) -> None:
    env = watch.rank_env({})
    port = int(env[SERVER_URL].rstrip("/").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
        assert post(env, report_of(1)) == 200


def test_a_process_that_does_not_answer_is_killed_so_that_no_trainer_waits_for_it(attempt: AttemptPaths) -> None:
    clock = count(0.0, 1.0)
    watch = ProgressWatch(attempt, lambda: next(clock))
    env = watch.rank_env({})
    assert post(env, report_of(1)) == 200
    os.kill(watch.pid, signal.SIGSTOP)
    for _ in range(2 * int(STALE_S)):
        watch.look()
    began = time.monotonic()
    with pytest.raises(OSError):
        wait_for(lambda: post(env, report_of(1)) != 200, LIMIT_S, "a refusal")
    assert time.monotonic() - began < 4
    watch.close()


@pytest.mark.slow
def test_a_real_trainer_reports(attempt: AttemptPaths, watch: ProgressWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    require("transformers")
    for name, value in watch.rank_env(dict(os.environ)).items():
        monkeypatch.setenv(name, value)
    from transformers.integrations.integration_utils import KubeflowCallback

    callback: Any = KubeflowCallback()
    callback._MIN_UPDATE_INTERVAL = 0.0
    state = SimpleNamespace(is_world_process_zero=True, max_steps=4, global_step=0, epoch=0.0)
    callback.on_train_begin(None, state, None)
    for step in (1, 2, 3):
        state.global_step, state.epoch = step, step / 2
        callback.on_step_end(None, state, None)
        callback.on_log(None, state, None, logs={"loss": 4.0 / step, "epoch": step / 2})
    callback.on_log(None, state, None, logs={"train_loss": 2.0, "epoch": 2.0})
    callback.on_train_end(None, state, None)
    watch.close()
    found = [(line["step"], line["total"], line.get("loss")) for line in lines(attempt)]
    assert found == [(1, 4, None), (2, 4, 4.0), (3, 4, 2.0), (4, 4, 4.0 / 3)]
