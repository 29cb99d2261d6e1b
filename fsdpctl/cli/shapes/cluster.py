"""Checks and benchmarks of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fsdpctl.contract import State
from fsdpctl.contract.benchmarks import DiskReport, NetworkReport


@dataclass(frozen=True)
class BenchedNetwork:
    """What `bench nccl` has measured."""

    run_id: str
    run_dir: str
    state: State  # of the run
    members: tuple[str, ...]  # the names of the members of pairs, which the report has by their numbers
    report: NetworkReport | None  # null: the run failed before anything was measured


@dataclass(frozen=True)
class BenchedDisk:
    """What `bench io` has measured."""

    run_id: str
    run_dir: str
    state: State  # of the run
    names: tuple[str, ...]  # of the nodes, by node rank
    checkpoint_bytes: int | None  # of the job of `--job`
    report: DiskReport | None  # null: the run failed before everything was measured


@dataclass(frozen=True)
class Doctored:
    """All nodes of a profile."""

    profile: str
    ok: bool  # no check failed on any node
    nodes: tuple[Mapping[str, Any], ...]  # node, address, versions, and findings with check, result, reason and fix
    network: BenchedNetwork | None = None  # with `--deep`, if no check has failed
    disk: BenchedDisk | None = None
