"""The fork servers that are on this host for a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fsdpctl.contract.codec import CodecError, find_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import ForkServerRecord
from fsdpctl.node.os import processes


@dataclass(frozen=True)
class Living:
    """Pids of fork servers: `roots` were started, with all that was forked below them; their child `servers` serve."""

    roots: tuple[int, ...]
    servers: tuple[int, ...]

    @property
    def pids(self) -> tuple[int, ...]:
        return (*self.roots, *self.servers)


def find_living(run: RunPaths, node_ranks: Iterable[int]) -> Living:
    """Return the fork servers of these nodes that are alive."""
    records = [_find_record(run, rank) for rank in node_ranks]
    roots = [record.process.pid for record in records if record is not None and processes.is_alive(record.process)]
    return Living(tuple(roots), tuple(server for root in roots for server in _servers(root)))


def _find_record(run: RunPaths, node_rank: int) -> ForkServerRecord | None:
    try:
        return find_json(ForkServerRecord, run.fork_server(node_rank))
    except (CodecError, OSError):
        return None


def _servers(root: int) -> list[int]:
    """Return the child that serves: only it has the command of its parent."""
    own = processes.command_line(root)
    return [pid for pid in processes.children(root) if processes.command_line(pid) == own]
