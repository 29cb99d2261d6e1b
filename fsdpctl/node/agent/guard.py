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
        read_end, self._write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._write_end)
            _watch(read_end, self._tag, self._paths, self._resources)
        os.close(read_end)

    def check(self) -> None:
        """Start a new guard if it was killed."""
        with suppress(ChildProcessError):
            ended, _ = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                os.close(self._write_end)
                self._start()

    def dismiss(self) -> None:
        with suppress(BrokenPipeError):
            os.write(self._write_end, FAREWELL)
        os.close(self._write_end)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


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
