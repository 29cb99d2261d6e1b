"""A profile for the Slurm of the testbed, and runs on it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.contract.codec import read_json
from fsdpctl.contract.records import Allocation
from fsdpctl.launchers.slurm.ref import read_ref
from tests.launchers.harness import Run, submit
from tests.testbed.slurm import SlurmCluster

PROFILE = """\
name: {name}
backend: {{kind: slurm, partition: {partition}{more}}}
allow_loopback: true       # the nodes of the testbed share this machine's addresses
master_address: 127.0.0.1
network: {{interface: lo}}
peer_timeout: 10s
python: {python}
"""


def write_profile(directory: Path, partition: str = "main", more: str = "") -> str:
    path = directory / f"slurm-{partition}.yaml"
    path.write_text(PROFILE.format(name=path.stem, partition=partition, python=sys.executable, more=more))
    return str(path)


@dataclass
class SlurmRun(Run):
    """A run, its job and its cluster."""

    cluster: SlurmCluster

    @property
    def job_id(self) -> str:
        ref = read_ref(self.paths)
        assert ref is not None and ref.job_id is not None
        return ref.job_id

    def nodes(self, attempt: int) -> list[str]:
        """The names of an attempt's nodes, by rank."""
        return [node.name for node in read_json(Allocation, self.paths.attempt(attempt).allocation).nodes]

    def reasons(self) -> list[str]:
        from fsdpctl.runs.evidence import read_verdict

        return [verdict.reason for attempt in self.paths.attempts() if (verdict := read_verdict(attempt))]

    def wait_ended(self, limit_s: float = 150) -> dict[str, Any]:
        return super().wait_ended(limit_s)

    def describe(self) -> str:
        return f"{self.cluster.job(self.job_id)}\n{super().describe()}"


def submit_to(cluster: SlurmCluster, *words: str, cwd: Path) -> SlurmRun:
    run = submit(*words, cwd=cwd)
    return SlurmRun(run.run_id, run.paths, run.cwd, cluster)
