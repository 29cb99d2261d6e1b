"""What is allocated in every moment of a step, and what passes leave: common to all strategies."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.cards import GIB
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.estimate.activations import Tokens, kept_in_all, of_documents
from fsdpctl.estimate.items import Item, Items, Moment
from fsdpctl.estimate.sizes import ModelSizes
from fsdpctl.estimate.traffic import compute_bytes, gathers_float8
from fsdpctl.estimate.world import Batch, World, uses_fsdp

MASTER, MOMENTS = 4, 8  # bytes of a parameter: in fp32, and AdamW's two
FLOAT8_SHARD = 1.2  # bytes of a parameter, measured
MATRIX_WORKSPACE = 0.07 * GIB  # of cuBLAS, rotary tables and small tensors


@dataclass(frozen=True)
class Step:
    sizes: ModelSizes
    world: World
    batch: Batch

    @property
    def config(self) -> TrainerConfig:
        return self.sizes.config

    @property
    def half(self) -> int:
        return compute_bytes(self.config)

    @property
    def tokens(self) -> Tokens:
        in_float8 = self.sizes.float8.all_blocks
        return Tokens(self.config.model, self.config.compile is not False, self.half, in_float8)

    @property
    def accumulates(self) -> bool:
        return self.batch.accumulation > 1

    @property
    def recompute(self) -> bool:
        return self.config.memory.recompute != "none"

    def moments(self) -> dict[Moment, Items]:
        raise NotImplementedError

    def items(self, part: Items) -> Items:
        """Return what a moment holds, with what is always there."""
        held: Items = {
            Item.WEIGHTS: MASTER * self.sizes.parameters / self.world.shard,
            Item.MOMENTS: MOMENTS * self.sizes.trained / self.world.shard,
            Item.BUFFERS: MATRIX_WORKSPACE + self._float8_shards(),
        }
        if self.config.memory.cpu_offload:
            held[Item.WEIGHTS] = held[Item.MOMENTS] = 0.0
        return {item: held.get(item, 0.0) + part.get(item, 0.0) for item in {**held, **part}}

    def _float8_shards(self) -> float:
        """Where weights are gathered in float8, each rank's part of them stays in it, too."""
        gathers = uses_fsdp(self.config, self.world) and gathers_float8(self.config, self.world)
        return FLOAT8_SHARD * self.sizes.float8.parameters / self.world.shard if gathers else 0.0

    def activations(self, blocks_less: int = 0) -> float:
        """What blocks keep, the input and output of the last norm, and the limits of documents."""
        kept = kept_in_all(self.config, self.tokens) - blocks_less * self.tokens.kept(self.config.memory.recompute)
        documents = of_documents(self.config, self.batch.micro_batch)
        return (kept + 2 * self.tokens.residual) * self.batch.micro_tokens + documents

    def working(self) -> float:
        one_graph = not self.sizes.units.sizes or not uses_fsdp(self.config, self.world)
        return self.tokens.working(self.config.memory.recompute, in_one_graph=one_graph) * self.batch.micro_tokens

    def logits(self, bytes_each: int) -> float:
        return bytes_each * self.batch.micro_tokens
