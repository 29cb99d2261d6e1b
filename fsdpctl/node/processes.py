"""Find and end processes by what identifies them: start time and boot for one, the environment tag for many.

Never by command text (another run of the same script must live) and never by process group: torchrun puts each
worker in a session of its own, so a group never holds a whole run.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract import Env
from fsdpctl.contract.records import ProcessIdentity

PROC = Path("/proc")


def boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks after boot; None if it is gone or a zombie."""
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the command in front may hold blanks and parentheses
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def identify(pid: int) -> ProcessIdentity:
    """Identify a living process of this host. Raises ProcessLookupError if it is gone."""
    ticks = start_ticks(pid)
    if ticks is None:
        raise ProcessLookupError(pid)
    return ProcessIdentity(socket.gethostname(), pid, ticks, boot_id(), time.time())


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether this very process still runs on this host; a reused pid or a reboot does not deceive it."""
    return boot_id() == identity.boot_id and start_ticks(identity.pid) == identity.start_ticks


@dataclass(frozen=True)
class Tag:
    """Which processes of a run: those of one node, or of all when `node_rank` is None."""

    run_id: str
    node_rank: int | None = None

    def matches(self, environ: bytes) -> bool:
        variables = set(environ.split(b"\0"))
        if f"{Env.RUN_ID}={self.run_id}".encode() not in variables:
            return False
        return self.node_rank is None or f"{Env.NODE_RANK}={self.node_rank}".encode() in variables


def find(tag: Tag) -> list[int]:
    """Pids of living processes that carry the tag; those of other users cannot be read and never match."""
    found = []
    for name in os.listdir(PROC):
        if not name.isdigit():
            continue
        try:
            environ = (PROC / name / "environ").read_bytes()
        except OSError:
            continue
        if tag.matches(environ) and start_ticks(int(name)) is not None:
            found.append(int(name))
    return found


def sweep(
    tag: Tag,
    *,
    spare: Iterable[int] = (),
    term_s: float = 0.0,
    kill_s: float = 5.0,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[int]:
    """End every process that carries the tag but those in `spare`; return the pids that are still there.

    TERM first when `term_s` is positive, then KILL, looking again each time: a process may fork while we look.
    """
    spared = set(spare)

    def remaining() -> list[int]:
        meanwhile()
        return [pid for pid in find(tag) if pid not in spared]

    if term_s > 0:
        _signal(remaining(), signal.SIGTERM)
        _wait_until(lambda: not remaining(), term_s)
    deadline = time.monotonic() + kill_s
    while (left := remaining()) and time.monotonic() < deadline:
        _signal(left, signal.SIGKILL)
        time.sleep(0.02)
    return remaining()


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _wait_until(condition: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
