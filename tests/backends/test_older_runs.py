"""Run directories that an older version of fsdpctl has made are listed, read and resumed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from fsdpctl.backends.ssh.older_plan import with_hosts
from fsdpctl.contract import SCHEMA
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.metrics import read_metrics
from tests.backends.harness import fsdpctl
from tests.services import require

OLDER = Path(__file__).parents[1] / "older_runs"


@pytest.fixture(params=range(1, SCHEMA))
def older(request: pytest.FixtureRequest) -> Path:
    return OLDER / f"schema_{request.param}"


@pytest.fixture
def run(home: Path, older: Path) -> RunPaths:
    """The run of an older version, stopped after a while, as if it had been made here."""
    run_id = json.loads((older / "run" / "run.json").read_text())["run_id"]
    root, data = home / "fsdpctl" / "runs" / run_id, home / "data"
    shutil.copytree(older / "run", root)
    shutil.copytree(OLDER / "data", data)
    names = {"RUN": root, "HOME": home / "fsdpctl", "DATA": data, "PYTHON": sys.executable, "HERE": home}
    for path in (root / name for name in ("plan.json", "job.yaml", "profile.yaml", "trainer.json")):
        text = path.read_text()
        for name, value in names.items():
            text = text.replace(f"@{name}@", str(value))
        path.write_text(text)
    pointer = home / "fsdpctl" / "registry" / root.name
    pointer.parent.mkdir(parents=True)
    pointer.write_text(f"{root}\n")
    return RunPaths(root)


def test_an_older_run_is_listed_and_read(run: RunPaths, older: Path) -> None:
    step, cause = {"schema_1": (69, "unknown"), "schema_2": (1610, "stop")}[older.name]
    [row] = json.loads(fsdpctl("ls", "--json", cwd=run.root.parent).stdout)
    assert (row["state"], row["reason"], row["step"]) == ("STOPPED", f"stopped (user); saved at step {step}", step)
    status = json.loads(fsdpctl("status", "older", "--json", cwd=run.root.parent).stdout)
    assert (status["phase"], status["cause"]) == ("ended", cause)
    assert "60/20000" in fsdpctl("logs", "older", cwd=run.root.parent).stdout
    assert "complete" in fsdpctl("checkpoints", "ls", "older", cwd=run.root.parent).stdout
    assert fsdpctl("checkpoints", "verify", "older", cwd=run.root.parent).returncode == 0


def test_an_older_run_is_resumed_with_the_code_of_this_version(run: RunPaths, older: Path) -> None:
    require("torch")
    expected = json.loads((older / "next_steps.json").read_text())  # what the version that made it had trained next
    steps = max(map(int, expected))
    done = fsdpctl("resume", "older", "--set", f"trainer.steps={steps}", "--follow", cwd=run.root.parent)
    assert done.returncode == 0, done.stderr
    assert "this run is of an older fsdpctl" in done.stderr
    assert json.loads(run.record.read_text())["schema"] == SCHEMA
    assert not (run.code / "fsdpctl" / "batch.py").exists()
    assert "stop_signal" in (run.code / "fsdpctl" / "contract" / "plan.py").read_text()
    found = {str(line["step"]): [line["loss"], line["samples"]] for line in read_metrics(run.metrics)}
    for step, (loss, samples) in expected.items():
        assert found[step] == [pytest.approx(loss, rel=1e-4), samples]


def test_the_hosts_of_an_ssh_run_are_found_in_its_profile(tmp_path: Path) -> None:
    shutil.copytree(OLDER / "schema_1" / "ssh_run", tmp_path / "run")
    run = RunPaths(tmp_path / "run")
    plan = with_hosts(run, read_plan(run))
    assert plan.ssh is not None
    assert (plan.ssh.user, plan.ssh.connect_timeout_s) == ("no", 90)
    assert [(node.rank, node.id, node.address, node.ssh_port) for node in plan.ssh.nodes] == [
        (0, "a", "10.0.0.1", 22),
        (1, "b", "10.0.0.2", 2222),
    ]
    assert [(spare.id, spare.env) for spare in plan.ssh.spares] == [("c", {"X": "1"})]
    assert with_hosts(run, plan) == plan
