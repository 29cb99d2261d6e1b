"""The files of one hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HoldPaths:
    """`<runs_root>/.holds/<name>/`, on each node under the same path."""

    root: Path

    @classmethod
    def below(cls, runs_root: Path, name: str) -> HoldPaths:
        return cls(runs_root / ".holds" / name)

    @property
    def record(self) -> Path:
        """Hold: what was asked for."""
        return self.root / "hold.json"

    @property
    def held(self) -> Path:
        """Held: what was given; absent while a scheduler has given nothing."""
        return self.root / "held.json"

    @property
    def profile(self) -> Path:
        return self.root / "profile.yaml"

    @property
    def lock(self) -> Path:
        """Held while a run is started in it."""
        return self.root / "lock"

    @property
    def newest_run(self) -> Path:
        """The directory of the last run that was started in it, as text."""
        return self.root / "newest-run"

    @property
    def batch_log(self) -> Path:
        """Output of its job, where a scheduler gives the nodes."""
        return self.root / "batch.log"

    def keeper(self, node_rank: int) -> Path:
        """KeeperRecord of a node, where a scheduler gives the nodes: who starts its fork servers."""
        return self.root / f"keeper-{node_rank}.json"

    def fork_server(self, node_rank: int) -> Path:
        """ForkServerRecord of a node: the next run in the hold finds it there."""
        return self.root / f"fork-server-{node_rank}.json"
