"""When an attempt ran and what its GPUs have used, by the records of its agents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract import FAULTS
from fsdpctl.contract.codec import find_json
from fsdpctl.contract.node_report import read_report
from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.runs.evidence import AttemptFacts


@dataclass(frozen=True)
class AttemptTime:
    """From the first agent's start to the last one's end, and the number of nodes whose agent was up."""

    start: float  # seconds since the epoch
    end: float
    nodes: int

    def seconds_since(self, since: float) -> float:
        """Return how long it ran after `since`."""
        return max(0.0, self.end - max(self.start, since))


def read_attempt_time(attempt: AttemptFacts, now: float) -> AttemptTime | None:
    """Return when an attempt ran, up to `now` while an agent lives; None if no agent was ever up."""
    agents = [(node, agent) for node in attempt.readable if (agent := find_json(ProcessIdentity, node.agent))]
    if not agents:
        return None
    start = min(agent.started for _, agent in agents)
    if attempt.living_agents:
        return AttemptTime(start, now, len(agents))
    return AttemptTime(start, max(start, *(_end(attempt, node) for node, _ in agents)), len(agents))


def last_alive(attempt: AttemptFacts) -> float | None:
    """Return when an attempt last showed a sign of life: a heartbeat, an exit record, or a fault that an agent or its
    supervisor found.

    None where no agent was up. A verdict is none: the job that follows a lost attempt may write it, much later.
    """
    beats = [(node, beat) for node in attempt.nodes if (beat := _changed(node.heartbeat))]
    times = [max(beat, _end(attempt, node)) for node, beat in beats]
    if attempt.abort is not None and attempt.abort.cause in FAULTS:
        times.append(_changed(attempt.paths.abort))
    return max(filter(None, times), default=None)


def read_energy_j(attempt: AttemptFacts) -> float | None:
    """Return what the GPUs of all nodes have used in an attempt, by their own counters; None where none reports it."""
    reports = [read_report(node.heartbeat) for node in attempt.readable]
    known = [report.energy_j for report in reports if report is not None and report.energy_j is not None]
    return sum(known) if known else None


def _end(attempt: AttemptFacts, node: NodePaths) -> float:
    """Return when a node's part ended; of a node without an exit record, its last heartbeat."""
    if (end := attempt.ends.get(node.node_rank)) is not None and end.time:
        return end.time
    return _changed(node.heartbeat)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
