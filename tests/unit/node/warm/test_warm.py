"""The fork server, its children and the worker that torchrun starts, as real processes without torch."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsdpctl.contract.paths import RunPaths
from fsdpctl.node.agent.fork_server import ForkServer
from fsdpctl.node.agent.warm_key import warm_key
from fsdpctl.node.agent.warm_torchrun import WarmTorchrun
from fsdpctl.node.os.processes import Tag, children, find, is_alive, start_ticks
from fsdpctl.node.warm import server
from fsdpctl.node.warm.messages import Request
from fsdpctl.node.warm.worker import SOCKET
from tests.backends.harness import command_line, wait_for

ROOT = Path(__file__).parents[4]
PROGRAM = """
import os, random, signal, subprocess, sys, time

def main(argv):
    match argv:
        case ["exit", code]:
            sys.exit(int(code))
        case ["signal", number]:
            os.kill(os.getpid(), int(number))
        case ["describe"]:
            print(os.getpid(), os.getcwd(), os.environ["COLOUR"], sys.argv, random.random())
        case ["sleep", *_]:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the fork server ignores it, as torchrun has to
            subprocess.Popen(["sleep", "60"], env={})
            print("sleeps", flush=True)
            time.sleep(60)
"""
TAG = Tag("run-w", 0)


class Node:
    """A node with a fork server, in a directory with a blank in its name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.env = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{directory}",
            "FSDPCTL_RUN_ID": TAG.run_id,
            "FSDPCTL_NODE_RANK": "0",
            "COLOUR": "red",
        }
        self.log = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        command = [sys.executable, "-u", "-m", "fsdpctl.node.warm"]
        self.path = directory / "fork-server.json"
        self.fork_server = ForkServer.start(self.path, "key", command, self.env, str(directory), self.log)

    def run(self, *argv: str, server: ForkServer | None = None, **env: str) -> WarmTorchrun:
        words = ["python", "program", *argv]
        request = Request("program", list(argv), {**self.env, **env}, str(self.directory), words)
        child = (server or self.fork_server).start_torchrun(request, self.log, lambda: None)
        assert child is not None, self.output()
        return child

    def worker(self, *argv: str) -> subprocess.Popen[bytes]:
        """Start what torchrun starts, for a rank that is this program."""
        code = "import sys; from fsdpctl.node.warm import worker as w; w.RANK_PROGRAM = 'program'; w.main(sys.argv[1:])"
        env = {**self.env, SOCKET: self.fork_server.record.address}
        return subprocess.Popen([sys.executable, "-c", code, *argv], env=env, cwd=self.directory, stdout=self.log)

    def output(self) -> str:
        return (self.directory / "log").read_text()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    directory = tmp_path / "a node"
    directory.mkdir()
    (directory / "program.py").write_text(PROGRAM)
    node = Node(directory)
    yield node
    node.fork_server.end()
    os.close(node.log)
    wait_for(lambda: not find(TAG), 10, lambda: f"no process left, but {[command_line(pid) for pid in find(TAG)]}")


def test_a_child_has_its_own_environment_directory_arguments_and_numbers(node: Node) -> None:
    codes = [node.run("describe", COLOUR=colour).wait(10) for colour in ("green", "blue")]
    assert codes == [0, 0]
    rows = node.output().splitlines()
    for row, colour in zip(rows, ("green", "blue"), strict=True):
        assert f"{node.directory} {colour} [" in row and row.split("] ")[0].endswith("'describe'"), row
    assert len({row.split()[-1] for row in rows}) == 2, "two ranks never draw the same numbers"


def test_the_process_table_shows_what_a_child_is(node: Node) -> None:
    child = node.run("sleep", RANK="3", LONG="x" * 100)
    wait_for(lambda: "sleeps" in node.output(), 10, "the program")
    assert command_line(child.pid) == "python program sleep"
    variables = Path(f"/proc/{child.pid}/environ").read_bytes().split(b"\0")
    assert b"RANK=3" in variables and b"FSDPCTL_RUN_ID=run-w" in variables
    assert child.pid in find(TAG)
    assert command_line(node.fork_server.pid).endswith("-m fsdpctl.node.warm")


@pytest.mark.parametrize(
    ("argv", "code"), [(["exit", "0"], 0), (["exit", "43"], 43), (["signal", "9"], -9), (["signal", "11"], -11)]
)
def test_a_worker_ends_as_its_rank_ends(node: Node, argv: list[str], code: int) -> None:
    assert node.run(*argv).wait(10) == code
    assert node.worker(*argv).wait(10) == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_ends_a_worker_ends_its_rank(node: Node, number: signal.Signals) -> None:
    worker = node.worker("sleep", "here")
    wait_for(lambda: "sleeps" in node.output(), 10, "the program")
    (rank,) = (pid for pid in find(TAG) if command_line(pid).endswith("-m program sleep here"))
    worker.send_signal(number)
    assert worker.wait(10) == -number
    wait_for(lambda: start_ticks(rank) is None, 10, "the rank to end")


def test_nothing_of_it_outlives_the_fork_server(node: Node) -> None:
    child = node.run("sleep")
    wait_for(lambda: "sleeps" in node.output(), 10, "the program")
    os.kill(node.fork_server.pid, signal.SIGKILL)
    assert child.wait(10) == -signal.SIGKILL
    wait_for(lambda: start_ticks(child.pid) is None, 10, "its child to end")


def test_the_next_attempt_finds_it_only_with_the_same_key(node: Node) -> None:
    assert ForkServer.find(node.path, "another key") is None
    found = ForkServer.find(node.path, "key")
    assert found is not None and found.pid == node.fork_server.pid
    node.fork_server.detach()
    assert node.run("exit", "0", server=found).wait(10) == 0
    found.end()
    assert ForkServer.find(node.path, "key") is None


@pytest.mark.slow  # for as long as it waits for one
def test_it_ends_by_itself_without_a_connection(node: Node) -> None:
    assert node.run("exit", "0").wait(10) == 0
    node.fork_server.detach()
    wait_for(lambda: not is_alive(node.fork_server.record.process), server.LINGER_S + 10, "the fork server to end")


def test_a_damaged_record_is_no_process(tmp_path: Path) -> None:
    path = tmp_path / "fork-server.json"
    path.write_text('{"process": 1')
    assert ForkServer.find(path, "key") is None


def test_imports_that_fail_are_reported_as_no_warm_start(tmp_path: Path) -> None:
    with open(tmp_path / "log", "wb") as log:
        imports = 'until [ -e go ]; do sleep 0.05; done; exec "$0" -c "import nothing_of_this_name"'
        command, go = ["sh", "-c", imports, sys.executable], tmp_path / "go"
        fork_server = ForkServer.start(
            tmp_path / "fork-server.json", "key", command, dict(os.environ), str(tmp_path), log.fileno()
        )
        assert fork_server.start_torchrun(Request("program", [], {}, str(tmp_path), []), log.fileno(), go.touch) is None
        fork_server.end()
    assert "nothing_of_this_name" in (tmp_path / "log").read_text()


@pytest.mark.slow
def test_hundreds_of_children_leave_nothing_behind(node: Node) -> None:
    def used() -> dict[str, int]:
        (serving,) = children(node.fork_server.pid)
        proc = Path(f"/proc/{serving}")
        status = (proc / "status").read_text()
        return {
            "descriptors": len(list((proc / "fd").iterdir())),
            "threads": int(status.partition("Threads:")[2].split()[0]),
            "kB": int(status.partition("VmRSS:")[2].split()[0]),
            "processes": len(find(TAG)),
        }

    for _ in range(20):
        node.run("exit", "0").wait(10)
    before = used()
    for _ in range(300):
        assert node.run("exit", "0").wait(10) == 0
    assert used().pop("kB") < before.pop("kB") + 512
    wait_for(lambda: all(used()[name] <= before[name] for name in before), 10, lambda: f"{before}, but {used()}")


def test_the_key_is_of_command_environment_and_code(tmp_path: Path) -> None:
    run, other = RunPaths(tmp_path / "run-1"), RunPaths(tmp_path / "run-2")
    (run.code / "train").mkdir(parents=True)
    (run.code / "train" / "loop.py").write_text("1\n")
    shutil.copytree(run.root, other.root)
    env = {"OMP_NUM_THREADS": "1", "SLURM_STEP_ID": "1", "FSDPCTL_ATTEMPT": "1", "PYTHONPATH": f"{run.code}:/lib"}
    key = warm_key(["python"], env, run)
    assert warm_key(["python"], {**env, "SLURM_STEP_ID": "2", "SSH_CLIENT": "::1"}, run) == key
    assert warm_key(["python"], {**env, "PYTHONPATH": f"{other.code}:/lib"}, other) == key, "an equal copy of the code"
    others = [
        warm_key(["python3"], env, run),
        warm_key(["python"], {**env, "OMP_NUM_THREADS": "2"}, run),
        warm_key(["python"], {**env, "TORCH_LOGS": "+dynamo"}, run),
    ]
    (run.code / "train" / "loop.py").write_text("22\n")
    others.append(warm_key(["python"], env, run))
    assert len({key, *others}) == 5


@pytest.mark.parametrize(
    ("module", "hazard"),
    [
        (
            "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
            "started threads: python",
        ),
        (
            "import sys, types\nsys.modules['torch'] = types.SimpleNamespace(cuda=types.SimpleNamespace("
            "_is_in_bad_fork=lambda: True))\n",
            "touched CUDA",
        ),
    ],
)
def test_a_process_that_an_import_has_spoilt_is_not_used(tmp_path: Path, module: str, hazard: str) -> None:
    (tmp_path / "spoils.py").write_text(module)
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    with open(tmp_path / "log", "wb") as log:
        command = [sys.executable, "-u", "-m", "fsdpctl.node.warm", "spoils"]
        path, directory = tmp_path / "fork-server.json", str(tmp_path)
        fork_server = ForkServer.start(path, "key", command, env, directory, log.fileno())
        assert fork_server.start_torchrun(Request("program", [], {}, directory, []), log.fileno(), lambda: None) is None
        fork_server.end()
    assert (tmp_path / "log").read_text().startswith(f"no warm start: an import has {hazard}")
