"""A sweep of real runs: its command is killed, the sweep is stopped, and the same command brings it to its end."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract.codec import decode
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import read_record
from fsdpctl.sweeps.result import Sweep
from tests.backends.harness import COMMAND, wait_for
from tests.backends.sweeps import write_project
from tests.services import require

SWEEP = [COMMAND, "sweep", "./mine.yaml", "--set", "env.LR=3,0.5", "--set", "restarts=0", "--at-once", "1"]


def sweep(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SWEEP, *words], capture_output=True, text=True, timeout=240)


def shown() -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(sweep("--show", "--json").stdout)["runs"]
    return runs


@pytest.mark.timeout(900)
def test_it_is_killed_stopped_and_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("torch")
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    with subprocess.Popen(SWEEP, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as command:
        wait_for(lambda: any(default_runs_root().glob("mine-LR3-*/metrics.jsonl")), 240, "a step of the first run")
        command.kill()
    assert [run["state"] for run in shown()] == ["RUNNING", None]

    assert "asked 1 run to save and exit" in sweep("--stop").stderr
    first, second = wait_for(lambda: (runs := shown())[0]["state"] == "STOPPED" and runs, 240, "the stop of the first")
    assert second["state"] is None and not Path(default_runs_root(), second["run_id"]).exists()

    Path("hold").unlink()
    done = sweep()
    assert done.returncode == 0, done
    assert f"{first['run_id']}  resumed\n" in done.stderr and f"{second['run_id']}  started\n" in done.stderr
    header, *rows, best = done.stdout.splitlines()
    assert header.split() == ["RUN", "LR", "STATE", "STEP", "LOSS", "HELD-OUT", "TOKENS/S"]
    assert [row.split()[:5] for row in rows] == [
        [first["run_id"], "3", "SUCCEEDED", "3", "1.0000"],
        [second["run_id"], "0.5", "SUCCEEDED", "3", "0.1667"],
    ]
    assert best == f"best: {second['run_id']}"
    one, other = (RunPaths(default_runs_root() / run["run_id"]) for run in (first, second))
    assert read_record(other).created >= one.attempts()[-1].verdict.stat().st_mtime, "one at a time"
    assert len(one.attempts()) == 2 and len(other.attempts()) == 1

    again = sweep("--json")
    decode(Sweep, json.loads(again.stdout))
    assert again.returncode == 0 and "started" not in again.stderr
    assert [run["run_id"] for run in json.loads(again.stdout)["runs"]] == [first["run_id"], second["run_id"]]
