"""What a process uses and where it waits, from /proc: the processor, files, the kernel."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.node.os.processes import PROC, descendants, stat_fields

TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_STORAGE_CHANNELS = ("fuse", "request_wait_answer", "nfs", "rpc_", "ptlrpc", "cl_", "ll_")
"""Of file systems that wait for a server in state S (FUSE, NFS, Lustre)."""


@dataclass(frozen=True)
class Usage:
    """Sums since the process began."""

    cpu_s: float = 0.0
    io_bytes: int = 0  # read and written through file descriptors

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.cpu_s + other.cpu_s, self.io_bytes + other.io_bytes)


def process_usage(pid: int) -> Usage:
    """Return what one process has used; zeros if it is gone."""
    fields = stat_fields(pid)
    ticks = int(fields[11]) + int(fields[12]) if fields else 0
    return Usage(ticks / TICKS_PER_S, _io_bytes(pid))


def tree_usage(pid: int) -> Usage:
    """Return what a process and its living descendants have used: compilers and data loaders work in children."""
    return sum((process_usage(one) for one in (pid, *sorted(descendants(pid)))), Usage())


@dataclass(frozen=True)
class Wait:
    """The state of a process as in proc(5), and the kernel function in which it waits."""

    state: str = ""  # T and t of the process; D if any thread waits for a disk; else that of the main thread
    channel: str = ""


def find_wait(pid: int) -> Wait:
    """Return how a process waits; empty if it is gone."""
    main = _wait(PROC / str(pid))
    if main.state in ("", "T", "t"):
        return main
    threads = [_wait(path) for path in _threads(pid)]
    return next((wait for wait in threads if wait.state == "D"), main)


def catches(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal: one that it does not expect would end it."""
    try:
        status = (PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return False
    return bool(int(status.partition("\nSigCgt:")[2].split()[0], 16) >> (number - 1) & 1)


def _wait(path: Path) -> Wait:
    fields = stat_fields(path)
    state = fields[0].decode() if fields else ""
    try:
        channel = (path / "wchan").read_text().strip("0\n")
    except OSError:
        channel = ""
    return Wait("D" if state == "S" and channel.startswith(_STORAGE_CHANNELS) else state, channel)


def _threads(pid: int) -> list[Path]:
    try:
        return [path for path in (PROC / str(pid) / "task").iterdir() if path.name != str(pid)]
    except OSError:
        return []


def _io_bytes(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "io").read_text().split()
    except OSError:  # a container may forbid it
        return 0
    return int(lines[1]) + int(lines[3])
