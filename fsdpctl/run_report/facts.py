"""The facts of a run: measured or recorded, never estimated. None where nothing was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fsdpctl.contract import Cause, Phase, State
from fsdpctl.contract.events import Event
from fsdpctl.contract.node_report import GpuSample
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.curves.series import RunCurves
from fsdpctl.explain.explanation import Explanation
from fsdpctl.ledger.account import Ledger
from fsdpctl.runs.git_facts import GitFacts
from fsdpctl.runs.gpu_history import GpuUse
from fsdpctl.runs.record import NodeKind
from fsdpctl.scaling.result import Scaling


@dataclass(frozen=True)
class Attempt:
    """One attempt: when its agents were up, and what it has reached."""

    number: int
    started: float | None  # seconds since the epoch
    ended: float | None  # None: it runs
    first_step: int | None  # None: none that counts
    last_step: int | None
    state: State | None
    cause: Cause | None
    reason: str
    hosts: tuple[str, ...]  # by node rank; "" where not known
    node: NodeKind | None = None  # of each of its nodes; an older version has recorded none: as in the plan

    @property
    def seconds(self) -> float:
        return max(0.0, self.ended - self.started) if self.started is not None and self.ended is not None else 0.0


@dataclass(frozen=True)
class Node:
    """One node of the newest attempt."""

    rank: int
    host: str | None
    ranks: tuple[int, ...]
    end: str  # its exit record
    gpus: tuple[GpuSample, ...]  # as its agent reported them last


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint that exists."""

    name: str
    step: int | None
    num_bytes: int | None
    time: float | None
    save_s: float | None  # duration of writing it
    problem: str


@dataclass(frozen=True)
class Steps:
    """What the steps of the whole run show."""

    count: int
    first: int
    last: int
    step_s: float | None  # median, in seconds
    tokens_per_s: float | None  # median
    mfu: float | None  # median
    first_loss: float | None
    last_loss: float | None
    lowest_loss: float | None
    num_saves: int
    save_stall_s: float | None  # by how much steps with a save are longer: the median of all saves
    tokens: int | None
    skipped: int  # steps that changed nothing, because they were not finite


@dataclass(frozen=True)
class SlowRank:
    """A rank for which the others have waited."""

    rank: int
    host: str | None
    times: int  # how often it became slow


@dataclass(frozen=True)
class Code:
    """The code that ranks ran."""

    git: GitFacts | None
    diff: str
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Facts:
    """One run."""

    run_id: str
    job: str
    profile: str
    backend: str
    state: State
    phase: Phase
    cause: Cause | None
    reason: str
    directory: str
    submitted: float
    read_at: float  # when these facts were read
    job_id: str | None
    total_steps: int | None
    plan: LaunchPlan | None
    configuration: Mapping[str, Any]
    code: Code
    attempts: tuple[Attempt, ...]
    nodes: tuple[Node, ...]
    ledger: Ledger | None  # what its time was used for
    steps: Steps | None
    outcome: Mapping[str, float]  # what rank 0 has measured at the end
    curves: RunCurves | None
    events: tuple[Event, ...]
    gpus: tuple[GpuUse, ...]  # over the whole run
    energy_kwh: float | None  # of all GPUs
    slow_ranks: tuple[SlowRank, ...]
    checkpoints: tuple[Checkpoint, ...]
    explanation: Explanation | None  # of a run that failed
    scaling: Scaling | None = None  # of its model on its profile, or that which the user gives

    @property
    def num_nodes(self) -> int:
        return len(self.plan.nodes) if self.plan is not None else len(self.nodes)

    @property
    def world_size(self) -> int:
        return self.plan.world_size if self.plan is not None else 0

    @property
    def has_gpus(self) -> bool:
        return self.plan is not None and self.plan.device == "cuda"

    @property
    def busy(self) -> float | None:
        """Share of the samples in which the GPUs had work."""
        known = [gpu.busy for gpu in self.gpus if gpu.busy is not None]
        return sum(known) / len(known) if known else None

    @property
    def used_s(self) -> float:
        """Seconds in which the nodes were used: of all attempts together."""
        return sum(attempt.seconds for attempt in self.attempts)

    @property
    def node_hours(self) -> float:
        """Of all attempts, each with its own number of nodes."""
        return sum(map(self._node_hours, self.attempts))

    @property
    def rank_hours(self) -> float:
        """Of all attempts, each with its own number of ranks; on GPUs only GPU hours count."""
        return sum(self._node_hours(attempt) * self._ranks_of_node(attempt) for attempt in self.attempts)

    def _node_hours(self, attempt: Attempt) -> float:
        return attempt.seconds * (len(attempt.hosts) or self.num_nodes) / 3600

    def _ranks_of_node(self, attempt: Attempt) -> int:
        if attempt.node is None:
            return self.plan.procs_per_node if self.plan is not None else 0
        return 0 if self.has_gpus and attempt.node.device != "cuda" else attempt.node.procs_per_node

    @property
    def repeated_steps(self) -> int:
        """Steps that a later attempt has done again."""
        pairs = zip(self.attempts, self.attempts[1:], strict=False)
        return sum(
            max(0, before.last_step - after.first_step + 1)
            for before, after in pairs
            if before.last_step is not None and after.first_step is not None
        )
