"""The keys of an SSH profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from fsdpctl.backends.section import BackendSection
from fsdpctl.contract.problems import Problem
from fsdpctl.schema.problems import shorten
from fsdpctl.schema.types import Duration, Word


class SshSection(BackendSection):
    """Hosts without a scheduler. Users, keys and jump hosts come from your SSH configuration."""

    kind: Literal["ssh"]
    user: Word | None = None
    """Login name; default: that of your SSH configuration."""
    shared_filesystem: bool = True
    """Set to false if `runs_root` is not on a disk shared by all nodes and this machine, but local to each of them."""
    connect_timeout: Duration = 10
    """Maximum time to open one connection."""

    def find_problems(self, num_nodes: int, gpus_per_node: int | None, runs_root: str | None) -> Iterator[Problem]:
        if num_nodes == 0:
            yield Problem("backend", "ssh needs the machines of the cluster, under `nodes`")
        if runs_root is not None and not runs_root.startswith(("/", "~")):
            example = f"/shared/{shorten(runs_root)}"
            yield Problem("runs_root", f"must be an absolute path, because it is the same on all hosts, like {example}")
