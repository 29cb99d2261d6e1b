"""Changes of a job that change its memory and speed and not its results, and the keys that make them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fsdpctl.contract.trainer.trainer_config import MeshConfig, Recompute, Strategy, TrainerConfig
from fsdpctl.contract.trainer.units import UnitsConfig


@dataclass(frozen=True)
class Change:
    """Values of some keys; None leaves a key as it is."""

    strategy: Strategy | None = None
    blocks: int | None = None  # of each unit
    micro_batch: int | None = None
    recompute: Recompute | None = None
    offload: bool | None = None

    def apply(self, config: TrainerConfig) -> TrainerConfig:
        """Return the changed configuration. Raises ValueError where the keys do not go together."""
        mesh, memory, batch = config.mesh, config.memory, config.batch
        if self.strategy is not None and self.strategy != mesh.strategy:
            mesh = _under(mesh, self.strategy)
        if self.blocks is not None:
            mesh = replace(mesh, units=UnitsConfig(blocks=self.blocks))
        if self.micro_batch is not None:
            batch = replace(batch, micro_batch=self.micro_batch)
        if self.recompute is not None and self.recompute != memory.recompute:
            memory = replace(memory, recompute=self.recompute, recompute_every=1)
        if self.offload is not None:
            memory = replace(memory, cpu_offload=self.offload)
        return replace(config, mesh=mesh, memory=memory, batch=batch)


def keys_between(old: TrainerConfig, new: TrainerConfig) -> tuple[str, ...]:
    """Return the keys that lead from one configuration to another, as words for `--set`."""
    return tuple(_keys(old, new))


def set_options(keys: Iterable[str]) -> str:
    """Return the keys as options of a command, quoted for a shell."""
    return " ".join(f"--set {shlex.quote(key)}" for key in keys)


def _keys(old: TrainerConfig, new: TrainerConfig) -> Iterator[str]:
    if new.mesh.strategy != old.mesh.strategy:
        yield f"trainer.mesh.strategy={new.mesh.strategy}"
    for key in ("replicate", "shard"):
        if getattr(old.mesh, key) is not None and getattr(new.mesh, key) is None:
            yield f"trainer.mesh.{key}=null"
    if new.mesh.units != old.mesh.units:
        yield f"trainer.mesh.units={_units_word(new.mesh.units)}"
    if new.batch.limit != old.batch.limit:
        yield f"trainer.batch.micro_batch={new.batch.limit}"
    if new.memory.recompute != old.memory.recompute:
        yield f"trainer.memory.recompute={new.memory.recompute}"
    if new.memory.cpu_offload != old.memory.cpu_offload:
        yield f"trainer.memory.cpu_offload={str(new.memory.cpu_offload).lower()}"


def _units_word(units: UnitsConfig) -> str:
    return "{}" if units.blocks is None else f"{{blocks: {units.blocks}}}"


def _under(mesh: MeshConfig, strategy: Strategy) -> MeshConfig:
    """Return the mesh under another strategy, with the sizes that this has by itself; DDP has no units."""
    if strategy == "DDP":
        return MeshConfig(strategy=strategy)
    prefetch = None if strategy == "NO_SHARD" else mesh.prefetch
    return replace(mesh, strategy=strategy, replicate=None, shard=None, prefetch=prefetch)
