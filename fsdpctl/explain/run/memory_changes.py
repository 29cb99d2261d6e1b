"""What to change in a run of the bundled trainer that ran out of GPU memory, from its own configuration. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from fsdpctl.contract.cards import GIB, card_of_memory
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.estimate.changes import Change, keys_between, set_options
from fsdpctl.estimate.choices import Planner
from fsdpctl.estimate.result import Cluster

_SIZE = re.compile(r"([\d.]+) ([KMGT])iB")
_UNITS = {unit: 2 ** (10 * power) for power, unit in enumerate("KMGT", 1)}


def memory_changes(
    trainer: TrainerConfig, fields: Mapping[str, str], run_id: str, plan: LaunchPlan | None = None
) -> tuple[str, ...]:
    """Return commands that need less memory, the smallest change first; none of them changes the results.

    `fields` are the numbers of the error: what was tried, what was reserved but not used, and all that the GPU has.
    """
    estimated = _estimated_change(trainer, fields, plan)
    changes = [*([estimated] if estimated else []), *_changes(trainer, fields)]
    return tuple(f"fsdpctl resume {run_id} {change}" for change in changes)


def _estimated_change(trainer: TrainerConfig, fields: Mapping[str, str], plan: LaunchPlan | None) -> str:
    """Return the smallest change with which the estimate fits this GPU; none where it expects the job to fit."""
    total = _bytes(fields.get("total"))
    if plan is None or not total:
        return ""
    card = card_of_memory(total / GIB)
    choice = Planner(trainer, Cluster(len(plan.nodes), plan.procs_per_node), card).smallest_change()
    if choice is None or not choice.keys:
        return ""
    needs = f"{choice.estimate.memory.total / GIB:.1f} GiB of {card.memory_gib:.1f}, by `fsdpctl estimate`"
    return f"{set_options(choice.keys)}  (the smallest change that fits: about {needs})"


def _changes(trainer: TrainerConfig, fields: Mapping[str, str]) -> Iterator[str]:
    tried, unused = _bytes(fields.get("tried")), _bytes(fields.get("unused"))
    if tried and unused and unused > tried:
        allocator = "env.PYTORCH_ALLOC_CONF=expandable_segments:True"
        yield f"--set {allocator}  ({fields['unused']} are reserved and not used)"
    for change, note in _usual(trainer):
        with suppress(ValueError):  # it does not go together with the rest of the job
            yield f"{set_options(keys_between(trainer, change.apply(trainer)))}  ({note})"


def _usual(trainer: TrainerConfig) -> Iterator[tuple[Change, str]]:
    """Yield what usually helps, and a note on it, the smallest change first."""
    batch, memory, mesh = trainer.batch, trainer.memory, trainer.mesh
    if (half := batch.limit // 2) > 0:
        yield Change(micro_batch=half), f"now {batch.limit}; the global batch stays {batch.sequences}"
    if memory.recompute == "none":
        yield Change(recompute="selective"), "slower by some percent"
    if memory.recompute != "full":
        yield Change(recompute="full"), "slower by up to a third"
    if mesh.strategy != "FULL_SHARD":
        yield Change("FULL_SHARD"), f"now {mesh.strategy}"
    if not memory.cpu_offload:
        yield Change(offload=True), "much slower"


def _bytes(text: str | None) -> float:
    found = _SIZE.search(text or "")
    return float(found[1]) * _UNITS[found[2]] if found else 0.0
