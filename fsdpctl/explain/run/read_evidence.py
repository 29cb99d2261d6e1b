"""Read what one attempt has left of each rank and node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from fsdpctl.contract.codec import CodecError, find_json, read_json
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.plan import Allocation, LaunchPlan
from fsdpctl.contract.rank_progress import read_rank_progress
from fsdpctl.contract.records import NodeEnd, ProcessIdentity, RankError
from fsdpctl.explain.run.evidence import AttemptEvidence, RankEvidence
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.supervise.hang import Hang


@dataclass(frozen=True)
class _Node:
    paths: NodePaths
    host: str
    ranks: range
    end: NodeEnd | None


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
        absent=_absent(facts, plan),
        quietest=_quietest(facts),
        plan=plan,
    )


def _missing(facts: AttemptFacts, plan: LaunchPlan | None) -> tuple[int, ...]:
    known = {node.node_rank for node in facts.nodes} | (set() if plan is None else {node.rank for node in plan.nodes})
    return tuple(sorted(known - facts.ends.keys()))


def _absent(facts: AttemptFacts, plan: LaunchPlan | None) -> tuple[int, ...]:
    missing = (node for node in _missing(facts, plan) if node not in facts.unreadable)
    return tuple(node for node in missing if not facts.paths.node(node).ready.exists())


def _quietest(facts: AttemptFacts) -> tuple[int, ...]:
    times = {}
    for node in facts.nodes:
        with suppress(OSError):
            times[node.node_rank] = node.heartbeat.stat().st_mtime
    return (min(times, key=lambda node: times[node]),) if len(times) > 1 else ()


def _nodes(facts: AttemptFacts, plan: LaunchPlan | None) -> Iterator[_Node]:
    planned = {node.rank: node.id for node in plan.nodes} if plan is not None else {}
    allocation = find_json(Allocation, facts.paths.allocation)
    allocated = dict(enumerate(node.name for node in allocation.nodes)) if allocation is not None else {}
    for node in facts.readable:
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
