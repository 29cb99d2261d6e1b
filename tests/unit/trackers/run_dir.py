"""A run directory as ranks write it, and the process that sends it to a tracker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_profile, parse_job

SECRET = "5ecret" * 8


def make_run(directory: Path) -> RunPaths:
    directory.mkdir()
    host = SubmitHost(run_id="mine-k3f9", run_dir=str(directory), submit_dir="/", python=sys.executable, gpus=())
    job = "name: mine\nentrypoint: {script: train.py}\nargs: [--lr, 3e-4]\n"
    write_json(RunPaths(directory).plan, build_plan(load_profile("local"), parse_job(job, "j.yaml"), host))
    return RunPaths(directory)


def append(path: Path, attempt: int, steps: range, name: str = "loss") -> None:
    with path.open("a") as file:
        for step in steps:
            line = {"step": step, "time": 1e9 + step, "attempt": attempt, name: 100.0 * attempt + step, "text": "no"}
            file.write(json.dumps(line) + "\n")


def send(run: RunPaths, name: str, attempt: int, end: str = "finished", env: Mapping[str, str] | None = None) -> str:
    """Send what there is, as at the end of an attempt; return what was printed."""
    argv = [sys.executable, "-m", "fsdpctl.trackers", name, f"--run-dir={run.root}", f"--attempt={attempt}"]
    done = subprocess.run(
        argv, input=end, env={**os.environ, **(env or {})}, cwd=run.root, text=True, timeout=120,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert not any(SECRET.encode() in path.read_bytes() for path in run.root.rglob("*") if path.is_file())
    return done.stdout
