"""How far a start is, host by host, from what the hosts have left in the new attempt."""

from __future__ import annotations

from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import read_plan


def read_start(run: RunPaths, after: int) -> str:
    """In words, which hosts have started and which have not; empty while there is no attempt newer than `after`."""
    attempts = run.attempts()
    if not attempts or attempts[-1].number <= after:
        return ""
    nodes = read_plan(run).nodes
    places = {node.id: attempts[-1].node(node.rank) for node in nodes}
    started = [name for name, place in places.items() if place.agent.exists()]
    silent = [name for name, place in places.items() if not place.root.exists()]
    checked = [name for name in places if name not in started and name not in silent]
    words = [f"{len(started)} of {len(nodes)} nodes started"]
    words += [f"being checked: {', '.join(checked)}"] if checked else []
    words += [f"no answer yet: {', '.join(silent)}"] if silent else []
    return "; ".join(words)
