"""What is recorded of each rank and node of one attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fsdpctl.contract.clock import format_clock
from fsdpctl.contract.codec import find_json
from fsdpctl.contract.files import read_bytes, read_tail
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.rank_progress import RankProgress
from fsdpctl.contract.records import NodeEnd, RankError, Resources
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.explain.flight.finding import FlightFinding
from fsdpctl.explain.flight.read import find_mismatch
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.supervise.hang import Hang

TAIL_BYTES = 64 * 1024
"""How much of the end of a log is read: a traceback, and what a library logs before it aborts a process."""


@dataclass(frozen=True)
class RankEvidence:
    """What is known of one rank's end."""

    rank: int
    node_rank: int
    host: str
    local_rank: int
    log: Path
    error: RankError | None = None
    exit_code: int | None = None  # as torchrun saw it, unless torchrun itself ended the rank
    is_finished: bool = False  # its script has ended without an error
    progress: RankProgress | None = None

    @cached_property
    def tail(self) -> list[str]:
        """The last lines of its log."""
        return tail_lines(self.log)


@dataclass(frozen=True)
class AttemptEvidence:
    """One attempt: its ranks, and the nodes by node rank."""

    facts: AttemptFacts
    run: RunPaths
    hosts: Mapping[int, str]
    ranks: tuple[RankEvidence, ...]
    hang: Hang | None
    missing: tuple[int, ...] = ()  # nodes without an exit record
    absent: tuple[int, ...] = ()  # nodes that have not passed their check, and not recorded why
    quietest: tuple[int, ...] = ()  # the node whose heartbeat is the oldest
    plan: LaunchPlan | None = None

    def stacks_of(self, rank: RankEvidence) -> str:
        """Return the stacks that a rank wrote when it made no progress; empty if there are none."""
        try:
            return read_bytes(self.facts.paths.node(rank.node_rank).rank_stacks(rank.rank)).decode(errors="replace")
        except OSError:
            return ""

    def resources_of(self, node_rank: int) -> Resources | None:
        """Return what a node had run out of; None if it recorded nothing."""
        end = self.ends.get(node_rank)
        return end.resources if end is not None else None

    @cached_property
    def fields(self) -> Mapping[str, str]:
        """What the texts of rules may name."""
        return fields_of(self.run, self.plan)

    @cached_property
    def flight(self) -> FlightFinding | None:
        """The operation in which its ranks waited, by their flight records."""
        return find_mismatch(self.facts.paths)

    @cached_property
    def trainer(self) -> TrainerConfig | None:
        """The configuration of the bundled trainer; None for a user's own script."""
        return find_json(TrainerConfig, self.run.trainer_config)

    @property
    def uses_gpus(self) -> bool:
        return self.plan is not None and self.plan.device == "cuda"

    @property
    def ends(self) -> Mapping[int, NodeEnd]:
        return self.facts.ends


def fields_of(run: RunPaths, plan: LaunchPlan | None) -> Mapping[str, str]:
    """Return what is known of any run, as the texts of rules name it."""
    limit = plan.time_limit_s if plan is not None else None
    return {"run": run.root.name, **({"time_limit": format_clock(limit)} if limit is not None else {})}


def tail_lines(path: Path) -> list[str]:
    """Return the last lines of a log; none if it cannot be read."""
    try:
        return read_tail(path, TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []
