"""The guard: a small process beside each agent that ends the node's processes if the agent dies.

torchrun ends with the agent and each rank with torchrun (`die_with_parent`), but not what ranks have started, and no
process would record the end. So the agent holds one end of a pipe and the guard blocks in a read at the other. End of
file without a farewell byte means that the agent is dead: the guard ends the node's processes at once and writes the
exit record. It uses no CPU while it waits.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from fsdpctl.contract import Cause
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import AttemptPaths, NodePaths, RunPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.os.processes import Tag, sweep
from fsdpctl.node.os.resources import ResourceWatch
from fsdpctl.node.warm.living import find_living

FAREWELL = b"."


class Guard:
    """Forks the guard process. The agent calls `dismiss` before its own clean exit."""

    def __init__(self, tag: Tag, paths: NodePaths, resources: ResourceWatch) -> None:
        self._tag, self._paths, self._resources = tag, paths, resources
        self._start()

    def _start(self) -> None:
        read_end, write_end = os.pipe()
        try:
            self.pid = os.fork()
        except OSError:
            os.close(read_end)
            os.close(write_end)
            raise
        if self.pid == 0:
            os.close(write_end)
            _watch(read_end, self._tag, self._paths, self._resources)
        os.close(read_end)
        self._write_end: int | None = write_end  # None while there is no guard

    def check(self) -> None:
        """Start a new guard if it was killed; at a limit of processes a later call does."""
        if self._write_end is not None and self._has_ended():
            os.close(self._write_end)
            self._write_end = None
        if self._write_end is None:
            with suppress(OSError):
                self._start()

    def dismiss(self) -> None:
        if self._write_end is None:
            return
        with suppress(BrokenPipeError):
            os.write(self._write_end, FAREWELL)
        os.close(self._write_end)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _has_ended(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True


def _watch(read_end: int, tag: Tag, paths: NodePaths, resources: ResourceWatch) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    try:
        if os.read(read_end, 1) != FAREWELL:
            living = find_living(RunPaths(AttemptPaths(paths.root.parent).run_dir), [tag.node_rank or 0])
            left = sweep(tag, below=living.roots, spare=[os.getpid()])
            reason = "the node agent was killed" + (f"; still alive: {left}" if left else "")
            paths.reserve.unlink(missing_ok=True)
            if not paths.end.exists():
                found = resources.read(paths.root)
                write_json(paths.end, NodeEnd(1, reason, time=time.time(), cause=Cause.AGENT, resources=found))
    finally:
        os._exit(0)
