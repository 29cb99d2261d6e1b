"""A profile for the Slurm of the testbed, and runs on it."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fsdpctl.backends.slurm.job_refs import read_ref
from fsdpctl.contract.codec import read_json
from fsdpctl.contract.plan import Allocation
from tests.backends.harness import Run, submit
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


def write_contained_profile(directory: Path, *, runs_root: Path, comment: str = "") -> str:
    """A profile with a module and a container, whose commands are shell scripts that say so in the environment."""
    apptainer = directory / "bin" / "apptainer"
    apptainer.parent.mkdir()
    apptainer.write_text('#!/bin/bash\nINSIDE="$2 $3" exec "${@:4}"\n')
    apptainer.chmod(0o755)
    environment = {"kind": "apptainer", "image": str(apptainer), "python": sys.executable}
    backend = {"kind": "slurm", "partition": "main", "comment": comment or None}
    setup = [f"PATH={shlex.quote(str(apptainer.parent))}:$PATH", 'module() { export LOADED="$2"; }']
    profile = {
        "backend": backend,
        "runs_root": str(runs_root),
        "setup": setup,
        "modules": ["fake/1"],
        "environment": environment,
    }
    path = Path(write_profile(directory))
    path.write_text(json.dumps({**yaml.safe_load(path.read_text()), **profile}))
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
