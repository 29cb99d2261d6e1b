"""The keys of an SSH profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from fsdpctl.backends.section import BackendSection
from fsdpctl.contract.problems import Problem
from fsdpctl.schema.problems import shorten
from fsdpctl.schema.types import Duration, Word


class SshBackend(BackendSection):
    """Hosts without a scheduler. User, key and jump hosts come from your ssh configuration."""

    kind: Literal["ssh"]
    user: Word | None = None
    """Login name; unset: what ssh would use."""
    shared_filesystem: bool = True
    """Whether `runs_root` is on a disk that all nodes and this machine share; false: each has its own."""
    connect_timeout: Duration = 10
    """Maximum time for one connection."""

    def find_problems(self, num_nodes: int, runs_root: str | None) -> Iterator[Problem]:
        if num_nodes == 0:
            yield Problem("backend", "ssh needs the machines of the cluster, under `nodes`")
        if runs_root is not None and not runs_root.startswith(("/", "~")):
            example = f"/shared/{shorten(runs_root)}"
            yield Problem("runs_root", f"all hosts use the same path; write it absolute, like {example}")
