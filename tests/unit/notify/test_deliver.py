"""Notices to real servers: those that answer, refuse, break, wait for ever, or are not there."""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from fsdpctl.contract.notify import NotifyTarget
from fsdpctl.notify.deliver import Delivery, deliver
from tests.backends.harness import command_line, wait_for
from tests.unit.notify.servers import FAILED, SECRET_PATH, http_server, webhook

PAUSES = (0.01, 0.01)


def send(*targets: NotifyTarget, timeout_s: float = 20, limit_s: float = 60) -> list[Delivery]:
    return list(deliver(targets, FAILED, timeout_s=timeout_s, pauses_s=PAUSES, limit_s=limit_s))


def test_a_server_that_fails_twice_is_asked_again(tmp_path: Path) -> None:
    with http_server(500, 503, 200) as server:
        target = webhook(server.url, tmp_path)
        assert send(target) == [Delivery(target, "", 3)]
    assert len(server.requests) == 3
    path, headers, body = server.requests[-1]
    assert path == SECRET_PATH and headers["Content-Type"] == "application/json"
    assert (body["v"], body["state"], body["cause"], body["run_id"]) == (1, "FAILED", "exit_code", "mine-k3f9")
    assert body["text"].splitlines()[0] == "run        mine-k3f9 FAILED: node 0: rank 1: exit code 3"


@pytest.mark.parametrize(("answer", "tries"), [(500, 3), (429, 3), (404, 1), (302, 1)])
def test_a_server_that_refuses_is_a_problem_without_the_secret(answer: int, tries: int, tmp_path: Path) -> None:
    with http_server(answer) as server:
        (delivery,) = send(webhook(server.url, tmp_path))
    assert delivery.tries == len(server.requests) == tries
    assert f"the server answered {answer}" in delivery.problem and "5ecret" not in delivery.problem


def test_a_dead_server_hides_no_other_target(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with http_server() as server:
        dead, alive = webhook(f"http://127.0.0.1:{port}{SECRET_PATH}", tmp_path), webhook(server.url, tmp_path)
        found = {delivery.target: delivery for delivery in send(dead, alive)}
    assert found[alive].problem == ""
    assert "cannot be reached" in found[dead].problem and found[dead].tries == 3
    assert "5ecret" not in found[dead].problem


def test_a_slow_server_is_given_up(tmp_path: Path) -> None:
    with http_server(is_slow=True) as slow, http_server() as server:
        targets = webhook(slow.url, tmp_path), webhook(server.url, tmp_path)
        begun = time.monotonic()
        found = {delivery.target: delivery for delivery in send(*targets, timeout_s=0.3)}
        assert found[targets[1]].problem == "" and "timed out" in found[targets[0]].problem
        assert time.monotonic() - begun < 30


def test_a_server_that_keeps_a_try_for_ever_is_given_up_by_the_limit(tmp_path: Path) -> None:
    with http_server(is_slow=True) as slow:
        (delivery,) = send(webhook(slow.url, tmp_path), limit_s=0.5)
    assert delivery.problem.startswith("not taken within")


BAD_URLS = ["ftp://host/5ecret-path", "http://", "http://[::1/5ecret-path", "http://host:port/5ecret-path", "5ecret"]


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_url_that_cannot_be_used_is_a_problem_without_it(url: str, tmp_path: Path) -> None:
    (delivery,) = send(webhook(url, tmp_path))
    assert delivery.problem and delivery.tries in (1, 3) and "5ecret" not in delivery.problem


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    target = webhook("", tmp_path)
    assert "is empty" in send(target)[0].problem
    (tmp_path / "url-0").unlink()
    assert send(target)[0].problem == f"{tmp_path}/url-0 cannot be read: No such file or directory"


def command(*argv: str) -> NotifyTarget:
    return NotifyTarget(("end",), 3600, command=argv)


def test_a_command_gets_the_notice_as_json(tmp_path: Path) -> None:
    target = command(
        sys.executable, "-c", f"import shutil, sys; shutil.copyfileobj(sys.stdin, open('{tmp_path}/n', 'w'))"
    )
    assert send(target)[0].problem == ""
    found = json.loads((tmp_path / "n").read_text())
    assert found["title"] == "fsdpctl: mine-k3f9 FAILED" and found["occasions"] == ["end", "failure"]


COMMANDS = [
    (["sh", "-c", "echo 5ecret >&2; exit 4"], 20, "it ended with exit code 4", 3),
    (["no-such-program-at-all"], 20, "no-such-program-at-all cannot be started: No such file or directory", 1),
    (["sleep", "1000"], 0.2, "it did not end within 0 s", 3),
]


@pytest.mark.parametrize(("argv", "timeout_s", "problem", "tries"), COMMANDS)
def test_a_command_that_fails(argv: list[str], timeout_s: float, problem: str, tries: int) -> None:
    target = command(*argv)
    assert send(target, timeout_s=timeout_s) == [Delivery(target, problem, tries)]


@pytest.mark.slow
def test_what_a_command_has_started_ends_with_it_and_its_signals_are_the_usual_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as the sender of a run does
    try:
        script = "grep SigIgn /proc/self/status >signals; sleep 300 & echo $! >pid; wait"
        (found,) = send(command("sh", "-c", script), timeout_s=3)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "did not end within" in found.problem
    assert int((tmp_path / "signals").read_text().split()[1], 16) & 1 << signal.SIGTERM - 1 == 0
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not command_line(pid), 10, "the command's child to end")
