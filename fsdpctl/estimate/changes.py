"""Changes of a job that change its memory and speed and not its results, and the keys that make them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace

from fsdpctl.contract.trainer.trainer_config import MemoryConfig, MeshConfig, Recompute, Strategy, TrainerConfig
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
    yield from _between("mesh", old.mesh, new.mesh)
    if new.batch.micro_batch != old.batch.micro_batch:
        yield f"trainer.batch.micro_batch={_word(new.batch.micro_batch)}"
    yield from _between("memory", old.memory, new.memory)


def _between(part: str, old: MeshConfig | MemoryConfig, new: MeshConfig | MemoryConfig) -> Iterator[str]:
    for key in (field.name for field in fields(new)):
        if (value := getattr(new, key)) != getattr(old, key):
            yield f"trainer.{part}.{key}={_word(value)}"


def _word(value: str | int | UnitsConfig | None) -> str:
    if isinstance(value, UnitsConfig):
        return "{}" if value.blocks is None else f"{{blocks: {value.blocks}}}"
    return value if isinstance(value, str) else json.dumps(value)


def _under(mesh: MeshConfig, strategy: Strategy) -> MeshConfig:
    """Return the mesh under another strategy, with the sizes that this has by itself; DDP has no units."""
    if strategy == "DDP":
        return MeshConfig(strategy=strategy)
    prefetch = None if strategy == "NO_SHARD" else mesh.prefetch
    return replace(mesh, strategy=strategy, replicate=None, shard=None, prefetch=prefetch)
