"""What is recorded of each rank and node of one attempt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fsdpctl.contract.clock import format_clock
from fsdpctl.contract.codec import CodecError, find_json, read_json
from fsdpctl.contract.files import read_bytes, read_tail
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.plan import Allocation, LaunchPlan
from fsdpctl.contract.rank_progress import RankProgress, read_rank_progress
from fsdpctl.contract.records import NodeEnd, ProcessIdentity, RankError, Resources
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
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
    def trainer(self) -> TrainerConfig | None:
        """The configuration of the bundled trainer; None for a user's own script."""
        return find_json(TrainerConfig, self.run.trainer_config)

    @property
    def uses_gpus(self) -> bool:
        return self.plan is not None and self.plan.device == "cuda"

    @property
    def ends(self) -> Mapping[int, NodeEnd]:
        return self.facts.ends


@dataclass(frozen=True)
class _Node:
    paths: NodePaths
    host: str
    ranks: range
    end: NodeEnd | None = field(default=None)


def read_evidence(run: RunPaths, facts: AttemptFacts, plan: LaunchPlan | None) -> AttemptEvidence:
    """Read what an attempt has left. `plan` is that of the newest submission: an older attempt may differ."""
    nodes = list(_nodes(facts, plan))
    return AttemptEvidence(
        facts=facts,
        run=run,
        hosts={node.paths.node_rank: node.host for node in nodes},
        ranks=tuple(_read_rank(rank, node) for node in nodes for rank in node.ranks),
        hang=find_json(Hang, facts.paths.hang),
        missing=_missing(facts, plan),
        absent=tuple(node for node in _missing(facts, plan) if not facts.paths.node(node).ready.exists()),
        quietest=_quietest(facts),
        plan=plan,
    )


def fields_of(run: RunPaths, plan: LaunchPlan | None) -> Mapping[str, str]:
    """Return what is known of any run, as the texts of rules name it."""
    limit = plan.time_limit_s if plan is not None else None
    return {"run": run.root.name, **({"time_limit": format_clock(limit)} if limit is not None else {})}


def _missing(facts: AttemptFacts, plan: LaunchPlan | None) -> tuple[int, ...]:
    known = {node.node_rank for node in facts.nodes} | (set() if plan is None else {node.rank for node in plan.nodes})
    return tuple(sorted(known - facts.ends.keys()))


def _quietest(facts: AttemptFacts) -> tuple[int, ...]:
    times = {}
    for node in facts.nodes:
        with suppress(OSError):
            times[node.node_rank] = node.heartbeat.stat().st_mtime
    return (min(times, key=lambda node: times[node]),) if len(times) > 1 else ()


def tail_lines(path: Path) -> list[str]:
    """Return the last lines of a log; none if it cannot be read."""
    try:
        return read_tail(path, TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []


def _nodes(facts: AttemptFacts, plan: LaunchPlan | None) -> Iterator[_Node]:
    planned = {node.rank: node.id for node in plan.nodes} if plan is not None else {}
    allocation = find_json(Allocation, facts.paths.allocation)
    allocated = dict(enumerate(node.name for node in allocation.nodes)) if allocation is not None else {}
    for node in facts.nodes:
        agent = find_json(ProcessIdentity, node.agent)
        rank = node.node_rank
        own = agent.host if agent is not None else planned.get(rank)
        host = allocated.get(rank) or own or f"node {rank}"
        yield _Node(node, host, _ranks_of(node, plan), facts.ends.get(rank))


def _ranks_of(node: NodePaths, plan: LaunchPlan | None) -> range:
    """Return the ranks of a node: those that have a log, and of those that wrote none, by the plan."""
    logs = sorted(node.rank_logs())
    if not logs:
        return range(0)
    count = max(plan.procs_per_node if plan is not None else 0, len(logs))
    first = min(logs[0], node.node_rank * count)
    return range(first, max(first + count, logs[-1] + 1))


def _read_rank(rank: int, node: _Node) -> RankEvidence:
    paths, end = node.paths, node.end
    error: RankError | None = None
    with suppress(OSError, CodecError):
        error = read_json(RankError, paths.rank_error(rank))
    exits = {} if end is None else end.exits
    named = end is not None and end.failed_rank == rank
    if error is None and named and end is not None:
        error = end.first_error or RankError(rank, paths.node_rank, end.time, end.reason, "")
    return RankEvidence(
        rank=rank,
        node_rank=paths.node_rank,
        host=node.host,
        local_rank=rank - node.ranks.start,
        log=paths.rank_log(rank),
        error=error,
        exit_code=exits.get(str(rank)),
        is_finished=error is None and paths.rank_end(rank).exists(),
        progress=read_rank_progress(paths.rank_progress(rank)),
    )
