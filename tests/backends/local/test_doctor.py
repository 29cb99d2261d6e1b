"""`fsdpctl doctor` on two nodes of this machine: each fault is injected for real, found, named, and nothing else."""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fsdpctl import Client
from fsdpctl.contract.findings import Check, Result
from tests.backends.harness import fsdpctl, submit
from tests.services import require
from tests.testbed.disks import Mount

HEALTHY = {"reach", "python", "torch", "byte_code", "interface", "head", "ports", "connect", "clock", "memlock"}
HEALTHY |= {"packages", "nofile", "shm", "run_root", "disk", "shared"}
PORT = 23_871


@dataclass
class Cluster:
    """A local profile of two nodes, the second with an environment of its own."""

    directory: Path
    keys: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    def examine(self, expect: int, *words: str) -> dict[str, dict[str, dict[str, str]]]:
        """Node -> check -> finding, from a doctor that ended with `expect`."""
        self.write()
        done = fsdpctl("doctor", "./two.yaml", "--json", *words, cwd=self.directory, expect=expect)
        return {
            node["node"]: {finding["check"]: finding for finding in node["findings"]}
            for node in json.loads(done.stdout)["nodes"]
        }

    def write(self) -> None:
        nodes = [
            {"id": "one", "address": "127.0.0.1"},
            {"id": "two", "address": "127.0.0.1", "port": 23, "env": self.env},
        ]
        base = {"name": "two", "backend": "local", "allow_loopback": True, "master_address": "127.0.0.1"}
        self.profile.write_text(json.dumps({**base, "network": {"interface": "lo"}, "nodes": nodes, **self.keys}))

    def give_second_node_a_python(self, command: str) -> None:
        """Both nodes run the python3 on their PATH; the second's is a shell script."""
        script = self.directory / "bin" / "python3"
        script.parent.mkdir()
        script.write_text(f"#!/bin/sh\n{command}\n")
        script.chmod(0o755)
        path = os.environ["PATH"]
        self.keys |= {"python": "python3", "env": {"PATH": f"{Path(sys.executable).parent}:{path}"}}
        self.env["PATH"] = f"{script.parent}:{path}"

    @property
    def profile(self) -> Path:
        return self.directory / "two.yaml"


@pytest.fixture
def two(tmp_path: Path) -> Cluster:
    require("torch")
    return Cluster(tmp_path, {"runs_root": str(tmp_path / "runs"), "python": sys.executable})


def accused(found: dict[str, dict[str, dict[str, str]]]) -> dict[str, set[str]]:
    """Node -> checks that failed or warned there; nodes without any are left out. A small disk is the machine's own."""
    bad = {
        node: {
            check
            for check, finding in findings.items()
            if finding["result"] == "fail" or (finding["result"] == "warn" and check != "disk")
        }
        for node, findings in found.items()
    }
    return {node: checks for node, checks in bad.items() if checks}


def test_a_healthy_cluster_passes_and_no_file_is_left(two: Cluster) -> None:
    found = two.examine(expect=0)
    assert set(found["two"]) == HEALTHY - {"ports"}
    assert set(found["one"]) == HEALTHY - {"shared"}
    assert accused(found) == {}
    assert "unknown" not in {finding["result"] for node in found.values() for finding in node.values()}
    assert [path.name for path in two.directory.iterdir()] == ["two.yaml"]


def test_the_bundled_local_profile_passes_in_little_processor_time(tmp_path: Path) -> None:
    require("torch")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = fsdpctl("doctor", cwd=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Not wall time: a busy machine would fail.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 10
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["CHECK", "RESULT", "NODES", "REASON"]
    assert {line.split()[0] for line in lines[1:]} == HEALTHY - {"shared"}
    assert {line.split()[1] for line in lines[1:] if not line.startswith("disk")} == {"ok"}


def test_a_taken_port_on_one_node_and_another_torch_and_a_skewed_clock_on_the_other(two: Cluster) -> None:
    """The clock is shifted inside the interpreter: libfaketime 0.9.10 makes Python's own time.sleep fail at times."""
    torch = two.directory / "other" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text(
        "from types import SimpleNamespace\n__version__ = '2.9.1+cpu'\nversion = SimpleNamespace(cuda=None)\n"
    )
    (torch.parent / "sitecustomize.py").write_text(
        "import time\nright = time.time\ntime.time = lambda: right() + 7200\n"
    )
    two.give_second_node_a_python(f'PYTHONPATH={torch.parent} exec {sys.executable} "$@"')
    two.keys["ports"] = {"first": PORT, "last": PORT}
    with socket.create_server(("", PORT)):
        found = two.examine(expect=1)
    assert accused(found) == {"one": {"ports"}, "two": {"torch", "clock"}}
    reason = found["one"]["ports"]["reason"]
    assert f"no port of {PORT}-{PORT} can be opened: {PORT} is held by pid {os.getpid()} (" in reason
    assert found["two"]["connect"]["result"] == "unknown"
    assert found["two"]["torch"]["reason"].startswith("torch 2.9.1+cpu, but 2.")
    words = found["two"]["clock"]["reason"].split()
    assert abs(int(words[3]) - 7200) <= 3, words
    assert words[4:] == ["s", "ahead", "of", "the", "others'"]


def test_a_run_root_that_cannot_be_written_and_a_head_on_loopback(two: Cluster, small_disk: Mount) -> None:
    two.keys |= {"runs_root": str(small_disk.path / "runs"), "allow_loopback": False}
    small_disk.make_read_only()
    found = two.examine(expect=1)
    assert accused(found) == {"one": {"run_root", "head"}, "two": {"run_root"}}
    assert f"Read-only file system: {small_disk.path}" in found["two"]["run_root"]["reason"]
    assert found["two"]["shared"]["result"] == "unknown"
    assert "127.0.0.1 (127.0.0.1) is loopback" in found["one"]["head"]["reason"]


def test_a_full_run_root_is_one_row_of_the_table(two: Cluster, small_disk: Mount) -> None:
    two.keys["runs_root"] = str(small_disk.path / "runs")
    small_disk.fill()
    two.write()
    done = fsdpctl("doctor", "./two.yaml", cwd=two.directory, expect=1)
    rows = {line.split()[0]: line for line in done.stdout.splitlines()[1:]}
    assert {check for check, row in rows.items() if row.split()[1] in ("fail", "warn")} == {"disk"}
    assert rows["disk"].split()[:3] == ["disk", "fail", "all"]
    assert f"{small_disk.path} is full: No space left on device. Fix: " in rows["disk"]
    assert done.stderr == "not fit for a run: one,two\n"


def test_a_missing_interface_and_a_limit_of_the_setup_lines(two: Cluster) -> None:
    two.keys |= {"network": {"interface": "ib77"}, "master_address": None, "setup": ["ulimit -n 200"]}
    found = two.examine(expect=1)
    assert accused(found) == {"one": {"interface", "nofile"}, "two": {"interface", "nofile"}}
    assert "interface 'ib77' does not exist here" in found["two"]["interface"]["reason"]
    assert found["two"]["interface"]["fix"].startswith("correct network.interface in the profile")
    assert found["one"]["head"]["result"] == found["two"]["connect"]["result"] == "unknown"
    (one,) = Client().doctor(two.profile, nodes=1)
    assert (one.node, one.has_failed) == ("one", True)
    failed = {finding.check for finding in one.findings if finding.result is Result.FAIL}
    assert failed == {Check.INTERFACE, Check.NOFILE}


def test_a_node_without_torch(two: Cluster) -> None:
    two.give_second_node_a_python(f'exec {sys.executable} -S "$@"')
    found = two.examine(expect=1)
    assert accused(found) == {"two": {"packages", "torch"}}
    assert "does not have torch" in found["two"]["packages"]["reason"]
    assert "torch cannot be imported" in found["two"]["torch"]["reason"]
    assert "No module named 'torch'" in found["two"]["torch"]["reason"]


def test_a_node_without_python_fails_only_the_reach_check(two: Cluster) -> None:
    two.give_second_node_a_python("unused")
    two.env["PATH"] = str(two.directory / "empty")
    found = two.examine(expect=1)
    assert accused(found) == {"two": {"reach"}}
    assert found["two"]["reach"]["reason"] == "the profile's python does not exist there: python3"
    assert "connect" in found["one"]


def test_a_failing_setup_line_and_the_requested_number_of_nodes(two: Cluster) -> None:
    two.keys["setup"] = ["module load cuda/99"]
    assert accused(two.examine(expect=1)) == {"one": {"reach"}, "two": {"reach"}}
    assert accused(two.examine(1, "--nodes", "1")) == {"one": {"reach"}}
    done = fsdpctl("doctor", "./two.yaml", "--nodes", "3", cwd=two.directory, expect=2)
    assert "nodes: 3 wanted, but the profile lists 2" in done.stderr


def test_an_attempt_fails_with_all_failed_checks_of_a_node(two: Cluster) -> None:
    """The same checks at the start of a run: no rank is started, no rendezvous waits."""
    two.keys |= {"network": {"interface": "ib77"}, "setup": ["ulimit -n 200"]}
    two.write()
    (two.directory / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: x.py}\n")
    (two.directory / "x.py").write_text("raise SystemExit('never reached')\n")
    run = submit("./job.yaml", "--profile", "./two.yaml", cwd=two.directory)
    status = run.wait_ended()
    assert status["state"] == "FAILED"
    assert "interface 'ib77' does not exist here" in status["reason"]
    assert "only 200 open files" in status["reason"]
    assert not list(run.paths.root.glob("attempts/*/*/torchrun.log"))
    run.assert_nothing_left()
