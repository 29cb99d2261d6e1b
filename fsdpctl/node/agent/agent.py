"""The node agent: one per node and attempt, from the node check to the last sweep.

It runs torchrun, keeps a heartbeat, obeys the stop and abort files, watches its peers, and leaves only when no
process of this node's part of the run is alive. What it knows it writes under `attempts/<n>/node-<r>/`.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from dataclasses import replace

from fsdpctl.contract import AbortReason, Cause, NodeExit, StopReason
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import ControlFile, create_once, read_control_file, write_request
from fsdpctl.contract.paths import AttemptPaths, NodePaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.agent.exit_status import FailureWatch, describe_end
from fsdpctl.node.agent.guard import Guard
from fsdpctl.node.agent.join import JoinError, join
from fsdpctl.node.agent.peers import Heartbeat, PeerWatch
from fsdpctl.node.agent.start_torchrun import start_torchrun
from fsdpctl.node.agent.watchdog import Watchdog
from fsdpctl.node.checks.node_check import NodeCheckError, check_node
from fsdpctl.node.os import processes

POLL_S = 0.1
PEERS_EVERY_S = 0.5
RESERVE_BYTES = 16_384
"""Kept free for the agent's last words: a disk that fills up must not make a run that has ended look lost."""
TERM_S = 5.0
"""From TERM to KILL, once ranks must end."""


class Agent:
    """One node's part of one attempt."""

    def __init__(self, plan: LaunchPlan, attempt: AttemptPaths, node_rank: int) -> None:
        self.plan, self.attempt, self.node_rank = plan, attempt, node_rank
        self.paths = attempt.node(node_rank)
        self.tag = processes.Tag(plan.run_id, node_rank)
        self.heartbeat = Heartbeat(self.paths.heartbeat)
        self.started = time.monotonic()

    def run(self) -> NodeEnd:
        """Check, meet, run the ranks to their end, sweep. Never raises for anything a user can cause."""
        processes.adopt_orphans()
        write_json(self.paths.agent, processes.identify(os.getpid()))
        self.guard = Guard(self.tag, self.paths)
        try:
            end = self._run_ranks()
        except NodeCheckError as error:
            end = NodeEnd(NodeExit.NODE_FAULT, str(error), cause=Cause.NODE_CHECK)
        except JoinError as error:
            end = NodeEnd(error.code, str(error), cause=error.cause)
        finally:
            left = self._sweep()
        if left:
            end = replace(end, code=end.code or 1, reason=f"{end.reason}; processes that would not die: {left}")
        return end

    def _run_ranks(self) -> NodeEnd:
        self._sweep()  # ranks of an older attempt
        for doubt in check_node(self.plan, self.paths.root):
            print(f"node check: {doubt.check} {doubt.result}: {doubt.reason}. {doubt.fix}", flush=True)
        context, lease = join(self.plan, self.attempt, self.node_rank, self.heartbeat.beat)
        try:
            return self._follow(start_torchrun(self.plan, context))
        finally:
            if lease is not None:
                lease.release()

    def _follow(self, torchrun: subprocess.Popen[bytes]) -> NodeEnd:
        """Wait for torchrun while obeying the files and watching the peers."""
        watch = PeerWatch(self.attempt, self._watched(), self.plan.peer_timeout_s)
        first_rank = self.node_rank * self.plan.procs_per_node
        dog = Watchdog(self.tag, self.paths, range(first_rank, first_rank + self.plan.procs_per_node))
        failure = FailureWatch(self.paths.torchrun_log, first_rank, TERM_S)
        grace = GraceTimer(self.plan.grace_s)
        next_look = 0.0
        while (code := torchrun.poll()) is None:
            self.heartbeat.beat()
            self.guard.check()
            if (note := read_control_file(self.attempt.abort)) is not None:
                return self._end_now(torchrun, note, failure)
            self._watch_time_limit()
            if grace.is_over(read_control_file(self.attempt.stop)):
                self._end_ranks(torchrun)
                reason = f"ended by force {self.plan.grace_s} s after the stop"
                return NodeEnd(NodeExit.STOPPED_UNSAVED, reason, cause=Cause.STOP)
            if (killed := failure.find_killed()) is not None:  # the other nodes need not wait for torchrun's end
                end_attempt(self.attempt, self.paths, f"node {self.node_rank}: {killed.reason}")
                return self._own_failure(torchrun) or killed
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + PEERS_EVERY_S
                if (lost := watch.find_lost()) is not None:
                    end_attempt(self.attempt, self.paths, lost.reason, lost.word)
                if (hanging := dog.check()) is not None:
                    end_attempt(self.attempt, self.paths, f"node {self.node_rank}: {hanging}", AbortReason.HANG)
                if failure.is_overdue():  # torchrun itself stays: it has yet to say which rank was the first
                    self._sweep(torchrun.pid, term_s=TERM_S)
            time.sleep(POLL_S)
        return describe_end(code, self.attempt, self.paths)

    def _watched(self) -> list[int]:
        if not self.plan.shared_disk:  # peers cannot be seen from here: the supervisor watches, and carries the notes
            return []
        return [0] if self.node_rank else list(range(1, len(self.plan.nodes)))

    def _watch_time_limit(self) -> None:
        limit = self.plan.time_limit_s
        if limit is None or self.node_rank != 0 or self.plan.is_limited_by_scheduler:
            return
        if time.monotonic() - self.started > limit - self.plan.grace_s and not self.attempt.stop.exists():
            write_request(self.attempt.stop, StopReason.TIME, f"the time limit of {limit} s is near")

    def _end_now(self, torchrun: subprocess.Popen[bytes], note: ControlFile, failure: FailureWatch) -> NodeEnd:
        own = self._own_failure(torchrun) if not note.is_cancel and failure.has_begun() else None
        self._end_ranks(torchrun)
        return own or NodeEnd(1, f"{note.word}: {note.reason}".rstrip(": "), cause=Cause.ABORT)

    def _own_failure(self, torchrun: subprocess.Popen[bytes]) -> NodeEnd | None:
        """What failed here before the others took offence: their words must not hide the rank that began it."""
        self._sweep(torchrun.pid, term_s=TERM_S)
        with suppress(subprocess.TimeoutExpired):
            end = describe_end(torchrun.wait(TERM_S), self.attempt, self.paths)
            return end if end.failed_rank is not None else None
        return None

    def _end_ranks(self, torchrun: subprocess.Popen[bytes]) -> None:
        self._sweep(term_s=TERM_S)
        torchrun.wait()

    def _sweep(self, *spare: int, term_s: float = 0.0) -> list[int]:
        """End this node's processes, whatever became of their parents or of their environment."""
        me = os.getpid()
        spared = [me, self.guard.pid, *spare]
        return processes.sweep(self.tag, below=me, spare=spared, term_s=term_s, meanwhile=self.heartbeat.beat)


class GraceTimer:
    """Counts from the moment this node saw the stop file."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._since: float | None = None

    def is_over(self, stop: ControlFile | None) -> bool:
        if stop is None:
            return False
        if self._since is None:
            self._since = time.monotonic()
        return time.monotonic() - self._since > self._grace_s


def end_attempt(attempt: AttemptPaths, paths: NodePaths, reason: str, why: str = AbortReason.FAULT) -> None:
    """Have all nodes end. What is kept free is for such words, too."""
    paths.reserve.unlink(missing_ok=True)
    create_once(attempt.abort, why, reason)
