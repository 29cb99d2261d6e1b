"""An agent answers a request for stacks, also for ranks that write none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsdpctl.contract.codec import find_json, write_json
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.contract.stack_dump import parse_stacks
from fsdpctl.contract.stacks_request import StacksAnswer, StacksRequest
from fsdpctl.node.agent import answer_stacks
from fsdpctl.node.agent.answer_stacks import StacksRequests

RANK = """
import sys, time
from pathlib import Path
from fsdpctl.node.agent.stack_writer import StackWriter
StackWriter(Path(sys.argv[1])).start()
print("up", flush=True)
def sleeps():
    time.sleep(60)
sleeps()
"""


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    found = AttemptPaths(tmp_path / "attempts/1")
    found.node(0).root.mkdir(parents=True)
    return found


@pytest.fixture
def ranks(attempt: AttemptPaths) -> Iterator[dict[int, int]]:
    """Rank 0 sleeps, rank 1 is stopped; rank 2 has no process."""
    started = []
    for rank in range(2):
        argv = [sys.executable, "-c", RANK, str(attempt.node(0).rank_stacks(rank))]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE))
        assert started[-1].stdout is not None and started[-1].stdout.readline() == b"up\n"
    os.kill(started[1].pid, signal.SIGSTOP)
    yield {rank: process.pid for rank, process in enumerate(started)}
    for process in started:
        process.kill()
        process.wait()


def test_each_request_is_answered_once_with_new_stacks(
    attempt: AttemptPaths, ranks: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_stacks, "ANSWER_S", 20.0)
    requests = StacksRequests(attempt, attempt.node(0), range(3), lambda: ranks)
    requests.follow()
    assert not attempt.node(0).stacks_answer.exists(), "without a request"
    for number in ("first", "second"):
        write_json(attempt.stacks_request, StacksRequest(number))
        answer = follow(requests, attempt, number)
        assert [(one.rank, one.state) for one in answer.ranks] == [(0, "S"), (1, "T"), (2, "")]
        main = parse_stacks(answer.ranks[0].text)
        assert [frame.function for frame in main[0].frames] == ["sleeps", "<module>"]
        assert "\0" not in answer.ranks[0].text, "the file was emptied before"
        assert not parse_stacks(answer.ranks[1].text) and not answer.ranks[2].text


def follow(requests: StacksRequests, attempt: AttemptPaths, number: str) -> StacksAnswer:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        requests.follow()
        answer = find_json(StacksAnswer, attempt.node(0).stacks_answer)
        if answer is not None and answer.number == number:
            return answer
        time.sleep(0.05)
    raise AssertionError("no answer")
