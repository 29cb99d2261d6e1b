"""With the real process table: children of this test, with their own tags."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fsdpctl.commands.environment import tag_env
from fsdpctl.node.os import processes
from fsdpctl.node.os.processes import Tag
from tests.backends.harness import wait_for

RUN = f"run-{os.getpid()}"  # another session of the tests may be sweeping, too
SLEEP = "import time; time.sleep(600)"
SURVIVES_TERM = "import signal, time; signal.signal(signal.SIGTERM, {}); print(flush=True); time.sleep(600)"
HANDLES_TERM, IGNORES_TERM = SURVIVES_TERM.format("lambda *_: None"), SURVIVES_TERM.format("signal.SIG_IGN")
FORKS_AWAY = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
"""


HAS_A_CHILD = """
import os, subprocess, sys, time
from fsdpctl.node.os import processes
me = os.getpid()
is_parent = eval(sys.argv[1])
child = subprocess.Popen(["sleep", "600"], preexec_fn=lambda: processes.die_with_parent(is_parent))
print(child.pid, flush=True)
print(child.wait(), flush=True)
"""


def test_ancestors_end_at_the_first_process() -> None:
    found = list(processes.ancestors(os.getpid()))
    assert found[0] == os.getppid()
    assert len(found) == len(set(found)), "from each to the next, not in a circle"


def test_a_child_dies_with_its_parent() -> None:
    words = [sys.executable, "-c", HAS_A_CHILD, "lambda parent: parent == me"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        wait_for(lambda: processes.start_ticks(child) is None, 10, "the death of the child")


def test_a_child_whose_parent_has_died_before_exits_at_once() -> None:
    words = [sys.executable, "-c", HAS_A_CHILD, "lambda parent: False"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout.splitlines()[1] == "1"


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[object]:
    children: list[subprocess.Popen[str]] = []

    def start(code: str, run_id: str, node_rank: int = 0) -> subprocess.Popen[str]:
        env = {**os.environ, **tag_env(run_id, 1, node_rank)}
        children.append(
            subprocess.Popen(
                [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
        )
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def test_a_process_is_identified_by_more_than_its_pid(start) -> None:  # type: ignore[no-untyped-def]
    child = start(SLEEP, RUN)
    identity = processes.identify(child.pid)
    assert processes.is_alive(identity)
    assert not processes.is_alive(replace(identity, start_ticks=identity.start_ticks + 1)), "a reused pid"
    assert not processes.is_alive(replace(identity, boot_id="another boot"))
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.is_alive(identity), "a zombie is dead"
    child.wait()
    with pytest.raises(ProcessLookupError):
        processes.identify(child.pid)


def test_tags_distinguish_runs_and_nodes(start) -> None:  # type: ignore[no-untyped-def]
    first, second = start(SLEEP, RUN, 0), start(SLEEP, RUN, 1)
    other = start(SLEEP, RUN + "b", 0)
    assert set(processes.find(Tag(RUN))) == {first.pid, second.pid}
    assert processes.find(Tag(RUN, 1)) == [second.pid]
    assert processes.find(Tag(RUN + "b")) == [other.pid]


def test_a_sweep_ends_processes_that_handle_term_or_fork_and_no_others(start) -> None:  # type: ignore[no-untyped-def]
    stays, same_command = start(HANDLES_TERM, RUN), start(SLEEP, "b" + RUN)
    forker = start(FORKS_AWAY, RUN)
    for child in (stays, forker):
        child.stdout.readline()
    wait_for(lambda: len(processes.find(Tag(RUN))) == 2, 10, "the process in between to exit")
    started = time.monotonic()
    assert processes.sweep(Tag(RUN), term_s=0.3) == []
    assert time.monotonic() - started >= 0.3, "the process that handles TERM got its time"
    assert processes.find(Tag(RUN)) == []
    assert same_command.poll() is None


def test_a_sweep_does_not_wait_for_processes_that_ignore_term(start) -> None:  # type: ignore[no-untyped-def]
    ignores, obeys = start(IGNORES_TERM, RUN), start(SLEEP, RUN)
    ignores.stdout.readline()
    started = time.monotonic()
    assert processes.sweep(Tag(RUN), term_s=300) == []
    assert time.monotonic() - started < 150
    assert (ignores.wait(), obeys.wait()) == (-9, -15)


def test_a_sweep_spares_the_given_pids(start) -> None:  # type: ignore[no-untyped-def]
    keep, end = start(SLEEP, RUN), start(SLEEP, RUN)
    assert processes.sweep(Tag(RUN), spare=[keep.pid]) == []
    assert end.wait() == -9
    assert keep.poll() is None


def test_a_process_is_found_while_it_starts_another_program() -> None:
    """Its environment is empty then; a third of these were missed on a busy machine."""
    missed = 0
    for _ in range(200):
        with subprocess.Popen(["sleep", "600"], env={**os.environ, **tag_env(RUN, 1, 0)}) as process:
            missed += not processes.has_tag(process.pid, Tag(RUN))
            process.kill()
    assert missed == 0


ADOPTS = """
import os, subprocess, sys, time
from fsdpctl.node.os import processes
processes.adopt_orphans()
clears = "import os, sys\\nif os.fork() == 0:\\n    os.setsid(); os.execve('/bin/sleep', ['sleep', '600'], {})"
subprocess.run([sys.executable, "-c", clears], check=True)
deadline = time.monotonic() + 10
while not processes.descendants(os.getpid()) and time.monotonic() < deadline:
    time.sleep(0.01)
print(len(processes.descendants(os.getpid())), flush=True)
sys.stdin.read()
print(processes.sweep(processes.Tag(f"run-{os.getpid()}"), below=[os.getpid()], spare=[os.getpid()]), flush=True)
print(len(processes.descendants(os.getpid())), flush=True)
"""


def test_an_orphan_without_its_environment_is_swept_too() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ADOPTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as adopter:
        out, _ = adopter.communicate("", timeout=30)
    assert out.split("\n")[:3] == ["1", "[]", "0"]
