"""Runs of one example in a hold of this machine: its imports are done once a node, for all runs and attempts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.backends.harness import Run, fsdpctl, submit, wait_for

RANKS = 2
_NAME = "examples"


@dataclass(frozen=True)
class Hold:
    """Two nodes for the job of an example's directory."""

    directory: Path

    def submit(self, override: str, *, nodes: int) -> Run:
        """Submit with two ranks."""
        words = ("--nodes", str(nodes), "--procs-per-node", str(RANKS // nodes), "--set", override)
        return submit("./job.yaml", "--in", _NAME, *words, cwd=self.directory)

    def resume(self, run: Run) -> None:
        fsdpctl("resume", run.run_id, "--in", _NAME, cwd=self.directory)


@contextmanager
def in_hold(directory: Path) -> Iterator[Hold]:
    """Hold the nodes, and release them once no run is on them."""
    fsdpctl("hold", "-p", "local", "--nodes", "2", "--name", _NAME, "--idle", "5m", cwd=directory)
    yield Hold(directory)
    wait_for(lambda: " idle " in fsdpctl("ls", cwd=directory).stderr, 60, "the hold to be idle")
    fsdpctl("release", _NAME, cwd=directory)


def losses(run: Run) -> dict[int, float]:
    """Return the loss by step; of a step that was done again after a kill, the last."""
    return {line["step"]: line["loss"] for line in run.metrics()}
