"""The estimates of `fsdpctl estimate` beside what was measured, as the table of docs/measured.md.

    python -m bench.gpu.compare_estimates RESULTS.jsonl

Takes what `bench.gpu estimates` writes, or tests/unit/estimate/measured.jsonl, which names the cases held out when the
constants were chosen. The time of a `fake` case is that of its computing: it sends nothing.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.contract.cards import CARDS, GIB, find_card
from fsdpctl.contract.codec import decode
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.estimate import Cluster, Estimate, estimate
from fsdpctl.estimate.items import MARGIN, Moment


@dataclass(frozen=True)
class Compared:
    """One case; errors are relative to what was measured."""

    name: str
    held_out: bool
    peak_gib: float
    estimated_gib: float
    step_ms: float
    estimated_ms: float

    @property
    def memory_error(self) -> float:
        return self.estimated_gib / self.peak_gib - 1

    @property
    def time_error(self) -> float:
        return self.estimated_ms / self.step_ms - 1


def compare(line: dict[str, Any]) -> Compared:
    """Estimate a measured case."""
    card = find_card(line.get("card", "h200")) or CARDS["h200"]
    config = {key: value for key, value in line["config"].items() if key != "data"}
    result = estimate(decode(TrainerConfig, config), Cluster(line["nodes"], line["procs"]), card)
    time, more = result.time, kept_before(result) if line.get("projection_kept") else 0
    return Compared(
        name=line["name"],
        held_out=line.get("held_out", False),
        peak_gib=line["max_memory_allocated"] / GIB,
        estimated_gib=(result.memory.allocated + more) / GIB,
        step_ms=1000 * line["step_s"],
        estimated_ms=1000 * (time.compute + time.optimizer if line["fake"] else time.total),
    )


def kept_before(result: Estimate) -> float:
    """Return what blocks kept in addition when a case was measured: q and k before their rotation, because of v."""
    model, memory, half = result.config.model, result.config.memory, 4 if result.config.precision == "fp32" else 2
    if memory.recompute == "selective" or result.memory.moment is Moment.END:
        return 0
    blocks = model.layers if memory.recompute == "none" else 1
    values = (model.heads + model.kv_heads) * model.head_dim * blocks
    return half * values * result.batch.micro_tokens * (1 + MARGIN)


def table(cases: Iterable[Compared]) -> str:
    """Return a table in Markdown."""
    rows = ["| configuration | held out | peak GiB | estimated | | step ms | estimated | |", "| --- " * 8 + "|"]
    for case in cases:
        memory = f"{case.peak_gib:.2f} | {case.estimated_gib:.2f} | {case.memory_error:+.1%}"
        time = f"{case.step_ms:.1f} | {case.estimated_ms:.1f} | {case.time_error:+.1%}"
        rows.append(f"| {case.name} | {'yes' if case.held_out else ''} | {memory} | {time} |")
    return "\n".join(rows)


def summary(cases: list[Compared]) -> str:
    """Return the median and the extremes of both errors."""
    memory, time = [case.memory_error for case in cases], [abs(case.time_error) for case in cases]
    return (
        f"{len(cases)} cases: peak {statistics.median(memory):+.1%} in the median, {min(memory):+.1%} to"
        f" {max(memory):+.1%}; step {statistics.median(time):.1%} in the median, {max(time):.1%} at most"
    )


def main() -> None:
    cases = [compare(json.loads(line)) for line in Path(sys.argv[1]).read_text().splitlines() if line.endswith("}")]
    print(table(cases))
    for name, part in (
        ("fitted", [case for case in cases if not case.held_out]),
        ("held out", [case for case in cases if case.held_out]),
    ):
        if part:
            print(f"{name}: {summary(part)}")


if __name__ == "__main__":
    main()
