"""The guards of conftest.py fail where they have to, and only there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.runs.registry import home as registry_home
from tests import services, tiers
from tests.backends.harness import wait_for
from tests.real_home import REAL_HOME

ROOT = Path(__file__).parents[1]
REGISTRY = Path(".local/state/fsdpctl/registry")

WRITES = """
import os, subprocess, time
from pathlib import Path
from tests.real_home import PLACES, REAL_HOME

def test_a_write_of_this_process():
    (PLACES[0] / "runs").mkdir()

def test_a_write_of_a_child_that_has_lost_its_environment():
    subprocess.run(["env", "-i", "/bin/sh", "-c", f"echo x >'{PLACES[1]}/local.yaml'"], check=True)

def test_a_write_of_a_child_that_was_left_alone():
    subprocess.run(["sh", "-c", 'setsid touch "$0" &', PLACES[0] / "late"], check=True)
    while not (PLACES[0] / "late").exists():
        time.sleep(0.01)

def test_without_a_write():
    pass
"""
WAITS = """
import time
from pathlib import Path

def test_that_writes_nothing():
    Path("ready").touch()
    while not Path("go").exists():
        time.sleep(0.01)
"""
SPENDS = """
import pytest, subprocess, sys
SPEND = "import time\\nend = time.process_time() + 0.4\\nwhile time.process_time() < end: pass"

def test_that_does_it_itself():
    exec(SPEND, {})

def test_whose_child_does_it():
    subprocess.run([sys.executable, "-c", SPEND], check=True)

@pytest.mark.slow
def test_that_is_marked():
    subprocess.run([sys.executable, "-c", SPEND], check=True)

left = []

@pytest.mark.slow
def test_that_waits_for_no_child():
    left.append(subprocess.Popen([sys.executable, "-c", SPEND + "\\nprint()"], stdout=subprocess.PIPE))
    left[0].stdout.read()

def test_that_waits_for_the_child_of_another():
    left[0].wait()
"""


class Session:
    """A test session of its own, with this home as the real one."""

    def __init__(self, directory: Path, conftest: str, tests: str, *words: str) -> None:
        self.real_home = directory / "real home"
        self.real_home.mkdir()
        (directory / "conftest.py").write_text(conftest)
        (directory / "test_it.py").write_text(tests)
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-X",
                "faulthandler",
                "-m",
                "pytest",
                "-c",
                os.devnull,
                "--rootdir",
                ".",
                "-pno:cacheprovider",
                f"--basetemp={directory / 'basetemp'}",  # or it removes directories of sessions before this one
                *words,
            ],
            cwd=directory,
            env={**os.environ, "HOME": str(self.real_home), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        """Return its exit code and output; where it hangs, its threads' stacks are in the output."""
        try:
            output, _ = self._process.communicate(timeout=200)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)
            output, _ = self._process.communicate()
            pytest.fail(f"the inner session hangs:\n{output}")
        return self._process.returncode, output


def test_no_test_sees_the_real_home(home: Path) -> None:
    assert Path.home() == home != REAL_HOME
    assert registry_home().is_relative_to(home)


@pytest.mark.slow
def test_whatever_a_test_writes_to_the_real_home_fails_it_and_stays_out(tmp_path: Path) -> None:
    services.require("mount")
    session = Session(tmp_path, "from tests.real_home import *", WRITES, "--numprocesses=1")
    code, output = session.end()
    assert code == 1 and "4 passed, 3 errors" in output and "written to the real home" in output, output
    assert re.findall(r"ERROR at teardown of (\w+)", output) == re.findall(r"(test_a\w+)", WRITES), output
    assert list(session.real_home.iterdir()) == [], "not even an empty directory stays"


@pytest.mark.slow
def test_what_another_process_writes_there_meanwhile_fails_no_test_and_stays(tmp_path: Path) -> None:
    services.require("mount")
    session = Session(tmp_path, "from tests.real_home import *", WAITS)
    wait_for((tmp_path / "ready").exists, 60, "the inner session")
    registry = session.real_home / REGISTRY
    registry.mkdir(parents=True)
    (registry / "llm-aaaa").write_text("/runs/llm-aaaa\n")
    (tmp_path / "go").touch()
    code, output = session.end()
    assert code == 0, output
    assert (registry / "llm-aaaa").read_text() == "/runs/llm-aaaa\n"


@pytest.mark.slow
def test_a_test_that_takes_long_is_marked_slow(tmp_path: Path) -> None:
    conftest = "from tests import tiers\nfrom tests.tiers import is_fast_or_marked_slow\ntiers.FAST_CPU_S = 0.3\n"
    code, output = Session(tmp_path, conftest, SPENDS).end()
    assert code == 1 and "5 passed" in output and "mark the test slow, or make it faster" in output, output
    assert re.findall(r"ERROR at teardown of (\w+)", output) == [
        "test_that_does_it_itself",
        "test_whose_child_does_it",
    ]


def test_whole_folders_are_slow(request: pytest.FixtureRequest) -> None:
    assert all(folder.is_dir() for folder in tiers.SLOW_FOLDERS)
    for item in request.session.items:
        if item.path.parent in tiers.SLOW_FOLDERS:
            assert "slow" in item.keywords


def test_a_missing_service_skips_here_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(services._IS_THERE, "torch", lambda: False)
    monkeypatch.delenv("FSDPCTL_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception):
        services.require("torch")
    monkeypatch.setenv("FSDPCTL_REQUIRE", "slurm,torch")
    with pytest.raises(pytest.fail.Exception):
        services.require("torch")
    assert "FSDPCTL_HOME" in os.environ
