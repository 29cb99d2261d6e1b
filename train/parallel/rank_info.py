"""Rank, world size and node of this process. Known before torch is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class RankInfo:
    """This rank, from torchrun's environment variables; without torchrun, a world of one."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1

    @property
    def nodes(self) -> int:
        return self.world_size // self.local_world_size

    @property
    def node(self) -> int:
        return self.rank // self.local_world_size

    def ranks_of(self, node: int) -> range:
        """Return the ranks of one node."""
        return range(node * self.local_world_size, (node + 1) * self.local_world_size)

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> RankInfo:
        """Read torchrun's variables; return a world of one where RANK is not set."""
        if "RANK" not in env:
            return cls()
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        return cls(*(int(env[name]) for name in names))
