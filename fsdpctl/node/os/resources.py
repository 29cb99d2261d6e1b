"""What this node may run out of: the memory of its cgroup and of the host, /dev/shm, the disk of the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.files import describe_disk
from fsdpctl.contract.records import Resources
from fsdpctl.node.os.processes import PROC

CGROUPS = Path("/sys/fs/cgroup")
SHM = Path("/dev/shm")


@dataclass(frozen=True)
class ResourceWatch:
    """Counts of processes that the kernel killed for memory before an attempt: only later ones are of it."""

    oom_kills: int | None
    host_oom_kills: int | None

    @classmethod
    def begin(cls) -> ResourceWatch:
        return cls(_oom_kills(), _host_oom_kills())

    def read(self, run: Path) -> Resources:
        """Return the resources now, with the kills since the begin."""
        return Resources(
            oom_kills=_difference(_oom_kills(), self.oom_kills),
            host_oom_kills=_difference(_host_oom_kills(), self.host_oom_kills),
            memory_limit=_first_number("memory.max", "memory.limit_in_bytes"),
            memory_peak=_first_number("memory.peak", "memory.max_usage_in_bytes"),
            shm_free=_free_bytes(SHM),
            is_disk_full=bool(describe_disk(run)),
        )


def _difference(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


def _oom_kills() -> int | None:
    for directory in _cgroups():
        for name in ("memory.events", "memory.oom_control"):
            if (count := _field(directory / name, "oom_kill")) is not None:
                return count
    return None


def _host_oom_kills() -> int | None:
    return _field(PROC / "vmstat", "oom_kill")


def _field(path: Path, key: str) -> int | None:
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == key:
                return int(number)
    return None


def _first_number(*names: str) -> int | None:
    """Return the number in the first of these files that has one; `max` is none, and no limit of version 1 is larger
    than any memory."""
    for directory in _cgroups():
        for name in names:
            with suppress(OSError, ValueError):
                number = int((directory / name).read_text())
                return number if number < 2**60 else None
    return None


def _cgroups() -> Iterator[Path]:
    """Yield the directories that this process's memory may be counted in: version 2, then version 1, then those of a
    container that shows its own cgroup as the root."""
    with suppress(OSError):
        for line in (PROC / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield CGROUPS / path.lstrip("/")
            elif "memory" in controllers.split(","):
                yield CGROUPS / "memory" / path.lstrip("/")
    yield CGROUPS
    yield CGROUPS / "memory"


def _free_bytes(path: Path) -> int | None:
    with suppress(OSError):
        disk = os.statvfs(path)
        return disk.f_bavail * disk.f_frsize
    return None
