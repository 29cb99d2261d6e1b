from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner, Result

from fsdpctl.cli.logs import logs
from fsdpctl.contract import NodeExit, RankFailure, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import NodeEnd, RankError
from fsdpctl.errors import FsdpctlError, LaunchError, UsageError
from fsdpctl.runs import find
from fsdpctl.runs.verdict import Verdict
from fsdpctl.verbs import status

app = typer.Typer()
app.command()(logs)


class Scene:
    """A run directory written by the test, and a clock that runs one step of a script at each sleep of the command."""

    def __init__(self, run: RunPaths) -> None:
        self.run = run
        self.state = State.SUCCEEDED
        self.script: list[Callable[[], object]] = []
        self.now = 0.0
        self.asked: list[float] = []

    def write(self, rank: int, text: str, *, attempt: int = 1) -> None:
        node = self.run.attempt(attempt).node(rank // 2)
        node.root.mkdir(parents=True, exist_ok=True)
        with open(node.rank_log(rank), "a") as file:
            file.write(text)

    def fail(
        self, rank: int, message: str, when: float, failure: RankFailure = RankFailure.EXCEPTION, *, attempt: int = 1
    ) -> None:
        error = RankError(rank, rank // 2, when, message, "", failure=failure)
        write_json(self.run.attempt(attempt).node(rank // 2).rank_error(rank), error)

    def end(self, state: State) -> None:
        self.state = state

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.script:
            self.script.pop(0)()

    def read_status(self, run: RunPaths) -> SimpleNamespace:
        assert run == self.run
        self.asked.append(self.now)
        return SimpleNamespace(state=self.state, reason="as scripted")


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(RunPaths(tmp_path / "tiny-abcd"))
    monkeypatch.setattr(find, "find_run", lambda word: scene.run)
    monkeypatch.setattr(status, "read_status", scene.read_status)
    monkeypatch.setattr(time, "sleep", scene.sleep)
    monkeypatch.setattr(time, "monotonic", lambda: scene.now)
    return scene


def call(*args: str) -> Result:
    result = CliRunner().invoke(app, list(args))
    if isinstance(result.exception, FsdpctlError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def test_the_newest_attempt_merged_folded_and_prefixed(scene: Scene) -> None:
    scene.write(0, "of an older attempt\n")
    for rank in range(4):
        scene.write(rank, f"2026-11-27 23:05:40,{rank}00 hello\n", attempt=2)
    scene.write(1, "2026-11-27 23:05:50,000 I am rank 1\n", attempt=2)
    assert call().stdout == (
        "node[0,1] rank[0-3] | 2026-11-27 23:05:40,000 hello\n"
        "node0     rank1     | 2026-11-27 23:05:50,000 I am rank 1\n"
    )


def test_the_last_lines_are_counted_as_they_are_shown(scene: Scene) -> None:
    for rank in range(4):
        scene.write(rank, "".join(f"2026-11-27 23:05:40,000 step {i}\n" for i in range(300)))
    assert len(call().stdout.splitlines()) == 100
    assert [line[-3:] for line in call("-n", "2").stdout.splitlines()] == ["298", "299"]
    assert len(call("-n", "all").stdout.splitlines()) == 300


def test_filters_by_global_rank_node_and_attempt(scene: Scene) -> None:
    for rank in range(4):
        scene.write(rank, f"r{rank}\n")
        scene.write(rank, f"second r{rank}\n", attempt=2)
    assert call("--rank", "3", "--attempt", "1").stdout == "node1 rank3 | r3\n"
    assert [line.split("| ")[1] for line in call("--node", "0").stdout.splitlines()] == ["second r0", "second r1"]


def test_supervisor_lines_are_merged_unless_ranks_are_selected(scene: Scene) -> None:
    for rank in (0, 3):
        scene.write(rank, f"2026-11-27 23:05:40,{rank}00 step\n")
    scene.run.attempt(1).events.write_text("2026-11-27 23:05:43.000 started on 2 nodes\n")
    assert call().stdout == (
        "node[0,1] rank[0,3]  | 2026-11-27 23:05:40,000 step\n"
        "          supervisor | 2026-11-27 23:05:43.000 started on 2 nodes\n"
    )
    assert "supervisor" not in call("--node", "0").stdout + call("--rank", "3").stdout


def test_a_failure_comes_first_and_errors_shows_nothing_else(scene: Scene) -> None:
    for rank in range(3):
        scene.write(rank, "x\n")
    scene.fail(0, "RuntimeError: Connection closed by peer", 1.0, RankFailure.LOST_PEER)
    scene.fail(2, "ValueError: bad", 2.0)
    cause = "rank 2 on node 1 failed first: ValueError: bad\n1 more rank failed after it: 0 (lost a peer)\n"
    assert call("--errors").stdout.startswith(cause)
    assert "| x" not in call("--errors").stdout
    assert call().stdout.startswith(cause)
    assert "| x" in call().stdout


def test_errors_of_a_healthy_attempt(scene: Scene) -> None:
    scene.write(0, "x\n")
    result = call("--errors")
    assert (result.stdout, result.stderr) == ("", "no rank of attempt 1 failed first\n")


HINT = "hint: fsdpctl explain tiny-abcd\n"


def test_errors_lists_the_reasons_of_failed_nodes(scene: Scene) -> None:
    no_gpu = NodeEnd(NodeExit.NODE_FAULT, "GPU 3 is gone (reset it)")
    for rank, end in enumerate((no_gpu, no_gpu, NodeEnd(1, "fault: node 0"), NodeEnd(NodeExit.NODE_FAULT, "no disk"))):
        node = scene.run.attempt(1).node(rank)
        node.root.mkdir(parents=True)
        write_json(node.end, end)
    shown = "nodes 0,1 could not take part: GPU 3 is gone (reset it)\n\nnode 3 could not take part: no disk\n\n"
    result = call("--errors")
    assert (result.stdout, result.stderr) == (shown, HINT)
    assert call().stdout.startswith(shown)


def test_errors_names_older_attempts_that_failed(scene: Scene) -> None:
    ends = [State.FAILED, State.STOPPED, State.LOST, State.FAILED]
    for number, state in enumerate(ends, start=1):
        scene.write(0, "x\n", attempt=number)
        write_json(scene.run.attempt(number).verdict, Verdict(state, f"reason {number}"))
    scene.fail(0, "ValueError: bad", 1.0, attempt=4)
    hint = "hint: attempts 1,3 failed before it: fsdpctl logs tiny-abcd --errors --attempt 3\n"
    result = call("--errors")
    assert "rank 0 on node 0 failed first: ValueError: bad\n" in result.stdout
    assert result.stderr == HINT + hint
    result = call("--errors", "--attempt", "3")
    assert (result.stdout, result.stderr) == ("attempt 3 LOST: reason 3\n", "no rank of attempt 3 failed first\n")
    scene.write(0, "x\n", attempt=5)
    healthy = call("--errors")
    assert healthy.stdout == ""
    assert healthy.stderr == (
        "no rank of attempt 5 failed first\n"
        "hint: attempts 1,3,4 failed before it: fsdpctl logs tiny-abcd --errors --attempt 4\n"
    )


def test_hostile_bytes_do_not_reach_the_terminal_but_raw_gives_them(scene: Scene) -> None:
    scene.write(0, "\x1b[2J\u202eevil\n")
    assert call().stdout == "node0 rank0 | \\x1b[2J\\u202eevil\n"
    assert call("--raw").stdout == "\x1b[2J\u202eevil\n"


def test_raw_is_not_for_terminals(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(UsageError, match="--raw"):
        logs(raw=True)


@pytest.mark.parametrize("word", ["-1", "ten", "\u0663", "", "9" * 5000])
def test_a_bad_count_is_refused(scene: Scene, word: str) -> None:
    with pytest.raises(UsageError, match="-n takes"):
        call("-n", word)


def test_a_missing_attempt_is_refused(scene: Scene) -> None:
    scene.write(0, "x\n")
    with pytest.raises(UsageError, match="no attempt 7; there are: 1"):
        call("--attempt", "7")


def test_nothing_to_show_is_reported(scene: Scene) -> None:
    assert "no such logs" in call().stderr
    scene.write(0, "x\n")
    assert "no such logs" in call("--rank", "9").stderr


# --- following -------------------------------------------------------------------------------------------------------


def test_following_shows_new_lines_until_the_run_ends(scene: Scene) -> None:
    scene.state = State.RUNNING
    scene.write(0, "old\n")
    scene.script = [
        lambda: scene.write(0, "new, ha"),
        lambda: scene.write(1, "from a new file\n"),
        lambda: scene.write(0, "lf by half\n"),
        lambda: scene.write(0, "no end"),
        lambda: scene.end(State.SUCCEEDED),
    ]
    result = call("-f")
    assert [line.split("| ")[1] for line in result.stdout.splitlines()] == [
        "old",
        "from a new file",
        "new, half by half",
        "no end",
    ]
    assert result.stderr == "      state | RUNNING: as scripted\n      state     | SUCCEEDED: as scripted\n"


def test_following_a_run_that_has_ended_does_not_wait(scene: Scene) -> None:
    scene.write(0, "x\n")
    assert call("-f").stdout == "node0 rank0 | x\n"
    assert scene.now == 0


def test_the_state_is_queried_less_and_less_often(scene: Scene) -> None:
    scene.state = State.QUEUED
    scene.script = [*[lambda: scene.end(State.QUEUED)] * 250, lambda: scene.end(State.CANCELLED)]
    call("-f")
    pauses = [round(b - a) for a, b in zip(scene.asked, scene.asked[1:], strict=False)]
    assert pauses == [2, 4, 8, 10, 10, 10, 10]


def test_later_attempts_are_followed_and_announced(scene: Scene) -> None:
    scene.state = State.RUNNING
    scene.write(0, "first\nlast words")
    scene.script = [
        lambda: scene.fail(0, "ValueError: x", 1.0),
        lambda: scene.write(0, "second\n", attempt=2),
        lambda: scene.end(State.SUCCEEDED),
    ]
    result = call("-f")
    assert result.stdout == (
        "node0 rank0 | first\n"
        "node0 rank0 | last words\n"
        "rank 0 on node 0 failed first: ValueError: x\n\n"
        "node0 rank0 | second\n"
    )
    assert "--- attempt 2 ---" in result.stderr


def test_only_the_selected_attempt_is_followed(scene: Scene) -> None:
    scene.state = State.RUNNING
    scene.write(0, "first\n")
    scene.script = [lambda: scene.write(0, "second\n", attempt=2)]
    assert call("-f", "--attempt", "1").stdout == "node0 rank0 | first\n"


def test_a_run_without_an_attempt_is_waited_for(scene: Scene) -> None:
    scene.state = State.QUEUED
    scene.script = [lambda: scene.write(0, "here\n"), lambda: scene.end(State.SUCCEEDED)]
    result = call("-f")
    assert result.stdout == "node0 rank0 | here\n"
    assert result.stderr.startswith(" state | QUEUED: as scripted\n")


def test_an_unreachable_scheduler_does_not_end_following(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(run: RunPaths) -> None:
        raise LaunchError("squeue: timed out")

    monkeypatch.setattr(status, "read_status", unreachable)
    scene.script = [
        lambda: scene.write(0, "still here\n"),
        lambda: monkeypatch.setattr(status, "read_status", scene.read_status),
    ]
    result = call("-f")
    assert result.stdout == "node0 rank0 | still here\n"
    assert " state | the state of the run is unknown for now: squeue: timed out\n" in result.stderr
