"""What to change in a run of the bundled trainer that ran out of GPU memory, from its own configuration. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fsdpctl.contract.trainer.trainer_config import TrainerConfig

_SIZE = re.compile(r"([\d.]+) ([KMGT])iB")
_UNITS = {unit: 2 ** (10 * power) for power, unit in enumerate("KMGT", 1)}


def memory_changes(trainer: TrainerConfig, fields: Mapping[str, str], run_id: str) -> tuple[str, ...]:
    """Return commands that need less memory, the smallest change first; none of them changes the results.

    `fields` are the numbers of the error: what was tried, and what was reserved but not used.
    """
    return tuple(f"fsdpctl resume {run_id} --set {change}" for change in _changes(trainer, fields))


def _changes(trainer: TrainerConfig, fields: Mapping[str, str]) -> Iterator[str]:
    tried, unused = _bytes(fields.get("tried")), _bytes(fields.get("unused"))
    if tried and unused and unused > tried:
        yield f"env.PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  ({fields['unused']} are reserved and not used)"
    batch, memory, mesh = trainer.batch, trainer.memory, trainer.mesh
    if (half := batch.micro_batch // 2) > 0:
        yield f"trainer.batch.micro_batch={half}  (now {batch.micro_batch}; the global batch stays {batch.sequences})"
    if memory.recompute == "none":
        yield "trainer.memory.recompute=selective  (slower by some percent)"
    if memory.recompute != "full":
        yield "trainer.memory.recompute=full  (slower by up to a third)"
    if mesh.strategy != "FULL_SHARD":
        yield f"trainer.mesh.strategy=FULL_SHARD  (now {mesh.strategy})"
    if not memory.cpu_offload and mesh.strategy != "DDP":
        yield "trainer.memory.cpu_offload=true  (much slower)"


def _bytes(text: str | None) -> float:
    found = _SIZE.search(text or "")
    return float(found[1]) * _UNITS[found[2]] if found else 0.0
