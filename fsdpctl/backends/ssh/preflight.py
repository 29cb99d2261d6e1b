"""Compare what hosts report before a start: those that differ from the others have a problem. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from fsdpctl.contract.findings import MAX_CLOCK_SKEW_S, most_common
from fsdpctl.node.queries.agent_control import NodeFacts


def compare(facts: Mapping[int, NodeFacts], now: float) -> dict[int, str]:
    """Return rank -> problem: versions that differ from those of most nodes, and clocks that are far off."""
    problems: dict[int, list[str]] = {rank: [] for rank in facts}
    for name in ("python", "torch"):
        versions = {rank: getattr(fact, name) or "none" for rank, fact in facts.items()}
        usual = most_common(list(versions.values())) if versions else ""
        for rank, value in versions.items():
            if value != usual:
                problems[rank].append(f"{name} {value}, the other nodes have {usual}")
    for rank, fact in facts.items():
        if abs(skew := fact.time - now) > MAX_CLOCK_SKEW_S:
            direction = "ahead of" if skew > 0 else "behind"
            problems[rank].append(f"its clock is {abs(skew):.0f} s {direction} this machine's")
    return {rank: "; ".join(found) for rank, found in sorted(problems.items()) if found}
