"""A run of `fsdpctl` on this machine, as a row sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu.process import CommandError
from bench.gpu.workspace import Workspace
from fsdpctl.contract.paths import RunPaths
from fsdpctl.node.os import processes
from fsdpctl.node.os.processes import Tag

ACTIVE = ("QUEUED", "RUNNING", "RESTARTING")


@dataclass(frozen=True)
class LaunchedRun:
    """A run of `fsdpctl`. As a context it ends with all its processes."""

    workspace: Workspace
    run_id: str
    paths: RunPaths
    deadline: float

    @classmethod
    def submit(
        cls, workspace: Workspace, job: str, nodes: int, overrides: Sequence[str], *more: str, cwd: Path = Path()
    ) -> LaunchedRun:
        sets = [word for override in overrides for word in ("--set", override)]
        answer = fsdpctl(workspace, "submit", job, "--nodes", str(nodes), "--json", *sets, *more, cwd=cwd)
        submitted = json.loads(answer)
        return cls(
            workspace, submitted["run_id"], RunPaths.of(submitted["run_dir"]), time.monotonic() + workspace.limit_s
        )

    def __enter__(self) -> LaunchedRun:
        return self

    def __exit__(self, *_: object) -> None:
        if self.status()["state"] in ACTIVE:
            fsdpctl(self.workspace, "cancel", self.run_id)

    def status(self) -> dict[str, Any]:
        return dict(json.loads(fsdpctl(self.workspace, "status", "--json", self.run_id)))

    def metrics(self) -> list[dict[str, Any]]:
        path = self.paths.metrics
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def ranks(self) -> list[int]:
        """Return the pids of the trainer's processes, in order of rank."""
        found: dict[int, int] = {}
        for pid in processes.find(Tag(self.run_id)):
            variables = dict(
                word.partition(b"=")[::2] for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            )
            if b"LOCAL_RANK" in variables:
                found.setdefault(int(variables[b"RANK"]), pid)
        return [found[rank] for rank in sorted(found)]

    def wait_steps(self, number: int) -> None:
        self.wait_for(lambda: len(self.metrics()) >= number)

    def wait_files(self, pattern: str) -> list[Path]:
        self.wait_for(lambda: any(self.paths.root.glob(pattern)))
        return list(self.paths.root.glob(pattern))

    def wait_end(self) -> str:
        self.wait_for(lambda: self.status()["state"] not in ACTIVE)
        return str(self.status()["state"])

    def wait_for(self, done: Callable[[], bool]) -> None:
        while not done():
            require(time.monotonic() < self.deadline, f"not done in time; {self.status()}")
            time.sleep(0.2)


def fsdpctl(workspace: Workspace, *words: str, cwd: Path = Path()) -> str:
    argv = [sys.executable, "-m", "fsdpctl", *words]
    env = {
        **os.environ,
        **workspace.env,
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=cwd, timeout=workspace.limit_s)
    if not done.stdout and done.returncode:
        raise CommandError(f"fsdpctl {' '.join(words)} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CommandError(otherwise)
