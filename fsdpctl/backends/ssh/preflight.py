"""What hosts say of themselves before a start, side by side: the odd ones are named. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from fsdpctl.contract.findings import MAX_CLOCK_SKEW_S, most_common
from fsdpctl.node.queries.agent_control import NodeFacts


def compare(facts: Mapping[int, NodeFacts], now: float) -> dict[int, str]:
    """What is wrong, by rank: versions that differ from those of the most nodes, and clocks that are far off."""
    problems: dict[int, list[str]] = {rank: [] for rank in facts}
    for what in ("python", "torch"):
        seen = {rank: getattr(fact, what) or "none" for rank, fact in facts.items()}
        usual = most_common(list(seen.values())) if seen else ""
        for rank, value in seen.items():
            if value != usual:
                problems[rank].append(f"{what} {value}, the other nodes have {usual}")
    for rank, fact in facts.items():
        if abs(skew := fact.time - now) > MAX_CLOCK_SKEW_S:
            direction = "ahead of" if skew > 0 else "behind"
            problems[rank].append(f"its clock is {abs(skew):.0f} s {direction} this machine's")
    return {rank: "; ".join(found) for rank, found in sorted(problems.items()) if found}
