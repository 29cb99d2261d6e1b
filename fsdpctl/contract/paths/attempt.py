"""The files of one attempt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.paths.node import NodePaths


@dataclass(frozen=True)
class AttemptPaths:
    """`attempts/<n>/`."""

    root: Path

    @property
    def number(self) -> int:
        return int(self.root.name)

    @property
    def run_dir(self) -> Path:
        return self.root.parent.parent

    @property
    def stop(self) -> Path:
        """Anyone may create it to make ranks save and exit: a StopReason, then free text."""
        return self.root / "stop"

    @property
    def abort(self) -> Path:
        """Anyone may create it to end all ranks now: an AbortReason, then free text. Ranks do not read it."""
        return self.root / "abort"

    @property
    def hang(self) -> Path:
        """Hang, written by the supervisor before it ends the attempt for it: which rank the others wait for."""
        return self.root / "hang.json"

    @property
    def memory_snapshot_request(self) -> Path:
        """Anyone may touch it to make each rank write a snapshot of its GPU's memory."""
        return self.root / "memory"

    @property
    def stacks_request(self) -> Path:
        """StacksRequest: each agent answers it in its node's directory with the stacks of its ranks."""
        return self.root / "stacks"

    @property
    def allocation(self) -> Path:
        """Allocation, under Slurm: written before the agents start."""
        return self.root / "allocation.json"

    @property
    def outcome(self) -> Path:
        """Outcome, written by rank 0."""
        return self.root / "outcome.json"

    @property
    def verdict(self) -> Path:
        """Verdict of the supervisor on how the attempt ended."""
        return self.root / "verdict.json"

    @property
    def events(self) -> Path:
        """Event records of the supervisor, one per line."""
        return self.root / "events.jsonl"

    @property
    def older_events(self) -> Path:
        """The same of an older version: a time and a text per line."""
        return self.root / "events.log"

    def node(self, node_rank: int) -> NodePaths:
        return NodePaths(self.root / f"node-{node_rank}")

    def nodes(self) -> list[NodePaths]:
        """Return the nodes that have a directory, by node rank."""
        found = [NodePaths(p) for p in self.root.glob("node-*") if p.name.removeprefix("node-").isdecimal()]
        return sorted(found, key=lambda node: node.node_rank)
