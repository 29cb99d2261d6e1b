"""The kinds of faults: what each does to a place, and what this machine needs for it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.campaign.place import NUM_NODES, Place, SshPlace

HOST_DOWN_S = 10.0
CABLE_OUT_S = 20.0
DISK_FULL_S = 10.0
OOM_LIMIT = 2**20
MEMORY = Path("/sys/fs/cgroup/memory")


@dataclass(frozen=True)
class Kind:
    """One kind of fault; `strike` returns where it was done, and what must be done afterwards."""

    name: str
    strike: Callable[[Place, random.Random], str]
    why_not: Callable[[Place], str] = lambda place: ""  # empty where it can be done
    ends_attempt: bool = True


def _signal_rank(number: signal.Signals) -> Callable[[Place, random.Random], str]:
    def strike(place: Place, draw: random.Random) -> str:
        node, local_rank = draw.randrange(NUM_NODES), draw.randrange(place.ranks)
        os.kill(place.rank(node, local_rank), number)
        return f"rank {node * place.ranks + local_rank}"

    return strike


def _kill(process: Callable[[Place, int], int]) -> Callable[[Place, random.Random], str]:
    def strike(place: Place, draw: random.Random) -> str:
        node = draw.randrange(NUM_NODES)
        os.kill(process(place, node), signal.SIGKILL)
        return f"node {node}"

    return strike


def _kill_supervisor(place: Place, draw: random.Random) -> str:
    place.kill_supervisor()
    place.fsdpctl("supervise", place.run.root.name)
    return "and started again"


def _kill_host(place: Place, draw: random.Random) -> str:
    assert isinstance(place, SshPlace)
    host = draw.choice(place.hosts)
    host.die()
    time.sleep(HOST_DOWN_S)
    host.boot()
    return f"{host.name}, up again after {HOST_DOWN_S:.0f} s"


def _pull_cable(place: Place, draw: random.Random) -> str:
    assert isinstance(place, SshPlace)
    host = draw.choice(place.hosts)
    host.pull_cable()
    time.sleep(CABLE_OUT_S)
    host.plug_cable()
    return f"{host.name}, for {CABLE_OUT_S:.0f} s"


def _fill_disk(place: Place, draw: random.Random) -> str:
    place.fill_disk(DISK_FULL_S)
    return f"for {DISK_FULL_S:.0f} s"


def _run_out_of_memory(place: Place, draw: random.Random) -> str:
    """Give a rank a cgroup with less memory than it asks for next."""
    node, local_rank = draw.randrange(NUM_NODES), draw.randrange(place.ranks)
    pid = place.rank(node, local_rank)
    group = MEMORY / f"campaign-{os.getpid()}-{pid}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(OOM_LIMIT))
    (group / "cgroup.procs").write_text(str(pid))
    return f"rank {node * place.ranks + local_rank}"


def remove_cgroups() -> None:
    """Remove the cgroups of ranks that have ended."""
    for group in MEMORY.glob(f"campaign-{os.getpid()}-*"):
        group.rmdir()


def _needs_hosts(place: Place) -> str:
    return "" if isinstance(place, SshPlace) else "needs hosts: --where ssh"


def _needs_cgroup(place: Place) -> str:
    return "" if os.access(MEMORY / "cgroup.procs", os.W_OK) else "needs root and the memory controller of cgroup v1"


def _needs_disk(place: Place) -> str:
    return "" if os.path.ismount(place.home) else "needs root, to mount a small disk"


def _needs_clock(place: Place) -> str:
    return "the hosts have the clock of this machine, which other processes use"


KINDS = (
    Kind("rank KILL", _signal_rank(signal.SIGKILL)),
    Kind("rank STOP", _signal_rank(signal.SIGSTOP)),
    Kind("torchrun KILL", _kill(Place.torchrun)),
    Kind("agent KILL", _kill(Place.agent)),
    Kind("supervisor KILL", _kill_supervisor, ends_attempt=False),
    Kind("host KILL", _kill_host, _needs_hosts),
    Kind("disk full", _fill_disk, _needs_disk, ends_attempt=False),
    Kind("cable out", _pull_cable, _needs_hosts),
    Kind("clock step", lambda place, draw: "", _needs_clock),
    Kind("out of memory", _run_out_of_memory, _needs_cgroup),
)
