"""Find and end processes: one by its start time and boot id, many by a tag in their environment.

Never by command text (another run of the same script must survive) and never by process group: torchrun puts each
worker in a session of its own, so no group contains a whole run.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract import Env
from fsdpctl.contract.records import ProcessIdentity

PROC = Path("/proc")
KILL_S = 5.0
"""How long processes may take to vanish after KILL: some hang in disk I/O."""
EXEC_S = 0.1
"""How long execve(2) may take between the new memory and the new environment."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks after boot; None if it is gone or a zombie."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def stat_fields(pid: int | Path) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on; empty if the process is gone or a zombie.

    A thread is given by its path.
    """
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return []
    fields = stat[stat.rindex(b")") + 2 :].split()  # the command before it may contain blanks and parentheses
    return [] if fields[0] in (b"Z", b"X") else fields


def identify(pid: int) -> ProcessIdentity:
    """Return the identity of a living process of this host. Raise ProcessLookupError if it is gone."""
    ticks = start_ticks(pid)
    if ticks is None:
        raise ProcessLookupError(pid)
    return ProcessIdentity(socket.gethostname(), pid, ticks, boot_id(), time.time())


def is_alive(identity: ProcessIdentity) -> bool:
    """Return True if this very process still runs on this host, not another one with its pid."""
    return boot_id() == identity.boot_id and start_ticks(identity.pid) == identity.start_ticks


@dataclass(frozen=True)
class Tag:
    """Marks the processes of a run: those of one node, or of all nodes if `node_rank` is None."""

    run_id: str
    node_rank: int | None = None

    def matches(self, environ: bytes) -> bool:
        variables = set(environ.split(b"\0"))
        if f"{Env.RUN_ID}={self.run_id}".encode() not in variables:
            return False
        return self.node_rank is None or f"{Env.NODE_RANK}={self.node_rank}".encode() in variables


def has_tag(pid: int, tag: Tag) -> bool:
    """Return whether a living process has the tag; those of other users are unreadable and never match."""
    return tag.matches(_read_environ(pid)) and start_ticks(pid) is not None


def rank_of(pid: int) -> int | None:
    """Return the global rank that the environment of a process has; None without one."""
    values = [one[5:] for one in _read_environ(pid).split(b"\0") if one.startswith(b"RANK=")]
    return int(values[0]) if values and values[0].isdigit() else None


def find(tag: Tag) -> list[int]:
    """Return the pids of living processes with the tag."""
    return [pid for pid in _all_pids() if has_tag(pid, tag)]


def die_with_parent(is_parent: Callable[[int], bool]) -> None:
    """Have the kernel kill this process when its parent dies (prctl(2)); exit now if the parent is another one already.

    The kernel forgets this in forked children, and keeps it when the process executes another program.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if not is_parent(os.getppid()):
        os._exit(1)


def adopt_orphans() -> None:
    """Make this process the parent of its orphaned descendants, instead of init (prctl(2)).

    So those that cleared their environment, and the tag with it, can still be found.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def ancestors(pid: int) -> Iterator[int]:
    """Yield the parent of a process, its parent, and so on."""
    while parent := _parent(pid):
        yield parent
        pid = parent


def children(parent: int) -> list[int]:
    """Return the pids of the living children of a process."""
    return [pid for pid in _all_pids() if _parent(pid) == parent]


def command_line(pid: int) -> list[bytes]:
    """Return the arguments of a process; empty if it is gone."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return []


def descendants(root: int) -> set[int]:
    """Return the pids of all living descendants of `root`."""
    parents = {pid: parent for pid in _all_pids() if (parent := _parent(pid)) is not None}
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in found | {root}} - found:
        found |= more
    return found


def sweep(
    tag: Tag,
    *,
    below: Iterable[int] = (),
    spare: Iterable[int] = (),
    term_s: float = 0.0,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[int]:
    """End every process with the tag or below the pids `below`, except those in `spare`; return the pids still alive.

    Sends TERM first if `term_s` is positive, then KILL repeatedly, because a process may fork meanwhile. Processes
    that ignore TERM, like torchrun before it has imported torch, are killed without a wait. `meanwhile` is called
    between the steps.
    """
    spared, roots = set(spare), list(below)

    def remaining() -> list[int]:
        meanwhile()
        children = set().union(*map(descendants, roots))
        return [pid for pid in {*find(tag), *children} if pid not in spared]

    if term_s > 0:
        _signal(remaining(), signal.SIGTERM)
        _wait_until(lambda: all(_ignores(pid, signal.SIGTERM) for pid in remaining()), term_s)
    deadline = time.monotonic() + KILL_S
    while (left := remaining()) and time.monotonic() < deadline:
        _signal(left, signal.SIGKILL)
        time.sleep(0.02)
    return left


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdecimal()]


def _read_environ(pid: int) -> bytes:
    """Return the environment of a process; empty if it is gone or of another user.

    A process amid execve(2) has memory, but neither arguments nor environment for some microseconds.
    """
    directory, deadline = PROC / str(pid), time.monotonic() + EXEC_S
    try:
        environ, has_arguments = (directory / "environ").read_bytes(), False
        while not environ and not has_arguments and time.monotonic() < deadline and _has_memory(directory):
            has_arguments = bool((directory / "cmdline").read_bytes())
            time.sleep(0.001)
            environ = (directory / "environ").read_bytes()
    except OSError:
        return b""
    return environ


def _has_memory(directory: Path) -> bool:
    """Return False for kernel threads and zombies."""
    return (directory / "statm").read_bytes().split()[0] != b"0"


def _parent(pid: int) -> int | None:
    """Return the parent of a living process; None if it is gone or a zombie."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else None


def _ignores(pid: int, number: signal.Signals) -> bool:
    """Return True if a process ignores a signal, or is gone."""
    try:
        status = (PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return True
    ignored = int(status.partition("\nSigIgn:")[2].split()[0], 16)
    return bool(ignored >> (number - 1) & 1)


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
