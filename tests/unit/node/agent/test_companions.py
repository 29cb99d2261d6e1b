"""Ranks run without the processes beside them, where those cannot be started."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract.node_report import NodeReport, RankReport
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.agent import progress_watch, trackers
from fsdpctl.node.agent.companions import Companions
from fsdpctl.specs.load import parse_job, parse_profile

PLAN = replace(
    build_plan(
        parse_profile("name: p\nbackend: local\n", "p"),
        parse_job("name: j\nentrypoint: {script: s.py}\nreport_to: [wandb, mlflow]\n", "j"),
        SubmitHost("j-abcd", "/runs/j-abcd", "/here", "python3", ()),
    ),
    device="cuda",
)


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    attempt = RunPaths(tmp_path).attempt(1)
    attempt.node(0).root.mkdir(parents=True)
    return attempt


def refuse(number: int) -> Any:
    def fail(*_words: Any, **_options: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("module", "name", "number"),
    [
        (subprocess, "Popen", errno.EAGAIN),  # the limit of processes
        (trackers, "open_log", errno.EDQUOT),
        (progress_watch, "write_text", errno.EDQUOT),
    ],
)
def test_what_cannot_be_started_beside_the_ranks_is_left_out_and_logged(
    module: Any,
    name: str,
    number: int,
    attempt: AttemptPaths,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if module is not subprocess:
        monkeypatch.setattr(subprocess, "Popen", refuse(errno.ENOENT))
    monkeypatch.setattr(module, name, refuse(number))
    companions = Companions(PLAN, attempt, 0)
    assert companions.prepare({}) == {}, "no server to which a Trainer could report"
    companions.start({})
    assert companions.pids() == []
    assert companions.report((RankReport(0),)) == NodeReport(ranks=(RankReport(0),))
    companions.finish(0, lambda: None)
    companions.close()
    logged = capfd.readouterr().out
    assert os.strerror(number) in logged
    assert [line.partition(":")[0] for line in logged.splitlines()] == ["progress", "wandb", "mlflow", "GPU samples"]


def test_a_port_of_a_process_that_cannot_be_started_is_closed(
    attempt: AttemptPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[socket.socket] = []
    create_server = socket.create_server

    def listen(*words: Any) -> socket.socket:
        opened.append(create_server(*words))
        return opened[-1]

    monkeypatch.setattr(socket, "create_server", listen)
    monkeypatch.setattr(subprocess, "Popen", refuse(errno.EAGAIN))
    Companions(PLAN, attempt, 0).prepare({})
    assert [one.fileno() for one in opened] == [-1]
