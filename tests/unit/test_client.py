"""The Python API does what the command line does, and raises instead of printing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fsdpctl import Client, Run
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import BusyError, FsdpctlError, UsageError
from tests.backends.harness import fsdpctl, wait_for
from tests.services import require

COUNTS_UNTIL_STOPPED = """
import json, os, time
from pathlib import Path
run, rank, attempt = Path(os.environ["FSDPCTL_RUN_DIR"]), os.environ["RANK"], int(os.environ["FSDPCTL_ATTEMPT"])
print("rank", rank, "attempt", attempt, flush=True)
if rank == "0":
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": attempt, "loss": 1 / attempt}) + "\\n")
(run / f"up-{attempt}-{rank}").touch()
while not Path(os.environ["FSDPCTL_STOP_FILE"]).exists():
    time.sleep(0.05)
"""
JOB = "name: probe\nnodes: 1\nprocs_per_node: 2\ngrace: 60s\nentrypoint: {script: script.py}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "script.py").write_text(COUNTS_UNTIL_STOPPED)
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wait_up(run: Run, attempt: int, ranks: int) -> None:
    wait_for(lambda: len(list(run.directory.glob(f"up-{attempt}-*"))) == ranks, 60, f"{ranks} ranks of {run}")


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


@pytest.mark.slow
def test_a_run_through_its_life(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    require("torch")  # torchrun is part of it
    client = Client()
    before = children()
    run = client.submit(Path("job.yaml"), nodes=2, overrides=["name=life"])
    assert children() == before, "no child that a long-lived process would have to reap"
    assert run.run_id.startswith("life-")
    assert run.directory.stat().st_mode & 0o777 == 0o700
    wait_up(run, attempt=1, ranks=4)
    assert run.status().state == "RUNNING"
    with pytest.raises(BusyError) as busy:
        run.resume()
    assert busy.value.hint == f"fsdpctl stop {run.run_id}"
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"is RUNNING after 0\.3 s: training"):
        run.wait(timeout_s=0.3)
    assert time.monotonic() - began < 5

    assert run.stop()
    assert (run.wait().state, run.status().reason) == ("STOPPED", "stopped (user)")
    assert not run.stop()
    assert not run.cancel()

    run.resume(nodes=1, profile="local")
    wait_up(run, attempt=2, ranks=2)
    later = client.submit("job.yaml", overrides=["name=later"], after=run)
    wait_for(lambda: run.run_id in later.status().reason, 20, lambda: later.status().reason)
    assert later.status().state == "QUEUED"
    assert run.cancel()
    assert (run.wait().state, run.status().attempt) == ("CANCELLED", 2)
    assert later.wait().state == "CANCELLED"
    with pytest.raises(UsageError, match=f"run {run.run_id} is CANCELLED, so nothing can start after it"):
        client.submit("job.yaml", after=run)

    assert run.metrics() == [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}]
    assert sorted(line.text for line in run.logs()) == ["rank 0 attempt 2", "rank 1 attempt 2"]
    assert [line.text for line in run.logs(attempt=1, ranks=[3])] == ["rank 3 attempt 1"]
    assert {line.rank for line in run.logs(attempt=1, nodes=[1])} == {2, 3}
    with pytest.raises(UsageError, match="has no attempt 3; there are: 1, 2"):
        run.logs(attempt=3)

    assert client.find("life") == client.find(run.run_id) == run
    assert client.runs() == [client.find(), run] == [later, run]
    assert capfd.readouterr() == ("", ""), "nothing is printed"
    shown = json.loads(fsdpctl("status", "--json", run.run_id, cwd=project).stdout)
    status = run.status()
    assert (shown["state"], shown["reason"], shown["step"]) == (status.state, status.reason, status.step)


def test_wrong_arguments_start_nothing(project: Path) -> None:
    client = Client()
    for arguments in ({"nodes": 0}, {"overrides": ["nodess=2"]}, {"profile": "moon"}, {"profile": Path("no.yaml")}):
        with pytest.raises(UsageError):
            client.submit("job.yaml", **arguments)  # type: ignore[arg-type]
    assert client.runs() == []
    with pytest.raises(UsageError, match="there are no runs yet"):
        client.find()


NUMBER = "a whole number or None"
WRONG_KINDS: list[tuple[str, dict[str, Any], str]] = [
    ("submit", {"job": None}, "job must be a name or a path, got None"),
    ("submit", {"profile": 1}, "profile must be a name or a path, got 1"),
    ("submit", {"nodes": "2"}, f"nodes must be {NUMBER}, got '2'"),
    ("submit", {"nodes": True}, f"nodes must be {NUMBER}, got True"),
    ("submit", {"overrides": [3]}, 'overrides must be a list of strings like ["trainer.steps=50"], got [3]'),
    ("submit", {"overrides": "trainer.steps=3"}, "overrides must be a list of strings like"),
    ("submit", {"overrides": None}, "overrides must be a list of strings like"),
    ("submit", {"after": "life"}, "after must be a Run or None, got 'life'"),
    ("find", {"word": 3}, "word must be text or None, got 3"),
    ("doctor", {"nodes": 1.5}, f"nodes must be {NUMBER}, got 1.5"),
    ("doctor", {"profile": None}, "profile must be a name or a path, got None"),
    ("wait", {"timeout_s": "3"}, "timeout_s must be a number of seconds or None, got '3'"),
    ("wait", {"timeout_s": float("nan")}, "timeout_s must be a number of seconds or None, got nan"),
    ("resume", {"nodes": "2"}, f"nodes must be {NUMBER}, got '2'"),
    ("resume", {"overrides": "nodes=2"}, "overrides must be a list of strings like"),
    ("resume", {"profile": 1}, "profile must be a name or a path, got 1"),
    ("resume", {"step": "12"}, f"step must be {NUMBER}, got '12'"),
    ("resume", {"update_code": "no"}, "update_code must be True or False, got 'no'"),
    ("logs", {"attempt": "1"}, f"attempt must be {NUMBER}, got '1'"),
    ("logs", {"ranks": 3}, "ranks must be a list of whole numbers like [0, 3], got 3"),
    ("logs", {"ranks": "3"}, "ranks must be a list of whole numbers like [0, 3], got '3'"),
    ("logs", {"nodes": ["0"]}, "nodes must be a list of whole numbers like [0, 3], got ['0']"),
    ("logs", {"agent": "yes"}, "agent must be True or False, got 'yes'"),
]


@pytest.mark.parametrize(("verb", "arguments", "problem"), WRONG_KINDS, ids=[f"{v} {w}" for v, w, _ in WRONG_KINDS])
def test_a_value_of_another_kind_is_refused_by_its_parameters_name(
    verb: str, arguments: dict[str, Any], problem: str, project: Path
) -> None:
    of_client = verb in ("submit", "find", "doctor")
    method = getattr(Client() if of_client else Run(RunPaths(project / "gone-abcd")), verb)
    job = {"job": "job.yaml"} if verb == "submit" else {}
    with pytest.raises(UsageError, match=re.escape(problem)):
        method(**(job | arguments))
    assert Client().runs() == []
    assert sorted(path.name for path in project.iterdir()) == ["job.yaml", "script.py"]


def test_a_run_that_cannot_be_read_is_an_fsdpctl_error(project: Path) -> None:
    run = Run(RunPaths(project / "gone-abcd"))
    for verb in (run.status, run.wait, run.stop, run.cancel):
        with pytest.raises(FsdpctlError, match="run gone-abcd cannot be read"):
            verb()
    assert run.metrics() == []
    assert list(run.logs()) == []


@pytest.mark.slow
def test_importing_the_package_imports_nothing() -> None:
    script = (
        "import sys, fsdpctl; assert not [name for name in sys.modules if name.startswith('fsdpctl.')];"
        "from fsdpctl import Client, Run; assert 'torch' not in sys.modules; print(Client.__module__);"
        "import fsdpctl; fsdpctl.nothing"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "fsdpctl.client\n"
    assert done.stderr.endswith("AttributeError: module 'fsdpctl' has no attribute 'nothing'\n")


@pytest.mark.slow
def test_a_users_type_checker_sees_the_types(tmp_path: Path) -> None:
    """`py.typed` marks the package as typed, and the lazy import hides no annotation."""
    pytest.importorskip("mypy")
    script = tmp_path / "uses.py"
    script.write_text("from fsdpctl import Client\nreveal_type(Client().find().wait().state)\nClient().submit(3)\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert 'Revealed type is "fsdpctl.contract.State"' in done.stdout
    assert 'Argument 1 to "submit" of "Client" has incompatible type "int"' in done.stdout
