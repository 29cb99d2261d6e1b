"""What the ranks of this node are doing right now: their processes, states and stacks."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.paths import NodePaths
from fsdpctl.node.os import processes
from fsdpctl.node.os.signals import DUMP_SIGNAL

DUMP_S = 1.0


def dump_stacks(paths: NodePaths, pids: Mapping[int, int]) -> dict[int, str]:
    """Make the ranks (rank -> pid) write their stacks beside their logs; return rank -> stacks."""
    for pid in pids.values():
        with suppress(ProcessLookupError):
            os.kill(pid, DUMP_SIGNAL)
    time.sleep(DUMP_S)
    return {rank: _read(paths.rank_stacks(rank)) for rank in pids}


def rank_processes(tag: processes.Tag) -> dict[int, int]:
    """Return global rank -> pid of the processes that torchrun started; the oldest one where a rank has children."""
    found: dict[int, int] = {}
    for pid in sorted(processes.find(tag), key=lambda pid: processes.start_ticks(pid) or 0):
        environ = _read_bytes(Path(f"/proc/{pid}/environ")).split(b"\0")
        for variable in environ:
            if variable.startswith(b"RANK="):
                found.setdefault(int(variable[5:]), pid)
    return found


def process_state(pid: int) -> str:
    """Return the state letter of /proc/PID/stat: R, S, D, T, ...; empty if the process is gone."""
    stat = _read_bytes(Path(f"/proc/{pid}/stat"))
    return chr(stat[stat.rindex(b")") + 2]) if b")" in stat else ""


def _read(path: Path) -> str:
    return _read_bytes(path).decode(errors="replace")


def _read_bytes(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError:
        return b""
