"""Report the progress of a start by host, from the files of the new attempt."""

from __future__ import annotations

from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import read_plan


def read_start(run: RunPaths, after: int) -> str:
    """Return as text which hosts have started and which have not; empty while no attempt is newer than `after`."""
    attempts = run.attempts()
    if not attempts or attempts[-1].number <= after:
        return ""
    nodes = read_plan(run).nodes
    paths = {node.id: attempts[-1].node(node.rank) for node in nodes}
    started = [name for name, node in paths.items() if node.agent.exists()]
    unanswered = [name for name, node in paths.items() if not node.root.exists()]
    checked = [name for name in paths if name not in started and name not in unanswered]
    parts = [f"{len(started)} of {len(nodes)} nodes started"]
    parts += [f"being checked: {', '.join(checked)}"] if checked else []
    parts += [f"no answer yet: {', '.join(unanswered)}"] if unanswered else []
    return "; ".join(parts)
