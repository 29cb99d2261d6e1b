"""The node agent: one per node and attempt, from the node check to the last sweep.

It runs torchrun, writes a heartbeat, obeys the stop and abort files and watches its peers. It exits only when no
process of the run is left on this node, and writes its records to `attempts/<n>/node-<r>/`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from fsdpctl.contract import GOOD_ENDS, AbortReason, Cause, NodeExit, StopReason
from fsdpctl.contract.control_files import ControlFile, create_once, read_control_file, write_request
from fsdpctl.contract.node_report import NodeReport
from fsdpctl.contract.paths import AttemptPaths, NodePaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.agent.answer_stacks import StacksRequests
from fsdpctl.node.agent.companions import Companions
from fsdpctl.node.agent.exit_status import FailureWatch, describe_end, describe_forced_end
from fsdpctl.node.agent.fork_server import ForkServer
from fsdpctl.node.agent.guard import Guard
from fsdpctl.node.agent.hang_evidence import collect_evidence
from fsdpctl.node.agent.heartbeats import Heartbeat, PeerWatch
from fsdpctl.node.agent.join import JoinError, join
from fsdpctl.node.agent.log_watch import LogWatch
from fsdpctl.node.agent.patience import Patience
from fsdpctl.node.agent.rank_watch import RankWatch, rank_processes
from fsdpctl.node.agent.start_torchrun import rank_environment, start_torchrun
from fsdpctl.node.agent.stop import Stopping
from fsdpctl.node.agent.warm_start import find_fork_server, leave_fork_server, start_fork_server
from fsdpctl.node.agent.warm_torchrun import Torchrun
from fsdpctl.node.checks.node_check import NodeCheckError, check_node
from fsdpctl.node.os import processes
from fsdpctl.node.os.resources import ResourceWatch
from fsdpctl.node.warm.living import find_living

POLL_S = 0.1
PEERS_EVERY_S = 0.5
TERM_S = 5.0
"""Seconds from TERM to KILL when ranks are ended."""
TRAINER_TERM_S = 0.5
"""The same for the bundled trainer: it ends at TERM at once, except in a collective, which under NCCL never returns."""
TERM_OF_VICTIMS_S = 1.0
"""The same after a node was lost: its peers wait in a collective for it, and cannot save together."""


class Agent:
    """One node's part of one attempt."""

    def __init__(self, plan: LaunchPlan, attempt: AttemptPaths, node_rank: int) -> None:
        self.plan, self.attempt, self.node_rank = plan, attempt, node_rank
        self.paths = attempt.node(node_rank)
        self.tag = processes.Tag(plan.run_id, node_rank)
        self.heartbeat = Heartbeat(self.paths.heartbeat)
        self.started = time.monotonic()
        first_rank = node_rank * plan.procs_per_node
        self.ranks = range(first_rank, first_rank + plan.procs_per_node)
        self.log_watch = LogWatch(self.paths, self.ranks)
        self.companions: Companions | None = None
        self.fork_server: ForkServer | None = None
        self.resources = ResourceWatch.begin()
        self.term_s = TRAINER_TERM_S if plan.entry.is_bundled_trainer else TERM_S

    def run(self) -> NodeEnd:
        """Check the node, join the others, run the ranks and sweep. Errors that a user can cause are returned."""
        processes.adopt_orphans()
        self.guard = Guard(self.tag, self.paths, self.resources)
        try:
            end = self._run_ranks()
        except NodeCheckError as error:
            end = NodeEnd(NodeExit.NODE_FAULT, str(error), cause=error.cause)
        except JoinError as error:
            end = NodeEnd(error.code, str(error), cause=error.cause)
        finally:
            left = self._sweep()
        self._leave_fork_server(end)
        if end.code not in GOOD_ENDS:
            end = replace(end, resources=self.resources.read(self.paths.root))
        if left:
            end = replace(end, code=end.code or 1, reason=f"{end.reason}; processes that could not be killed: {left}")
        return end

    def _run_ranks(self) -> NodeEnd:
        if self.plan.warm:
            self.fork_server = find_fork_server(self.plan, self.node_rank)
        self._sweep()  # ranks of an older attempt
        if self.plan.warm and self.fork_server is None:
            self.fork_server = start_fork_server(self.plan, self.attempt.number, self.node_rank)
        for found in check_node(self.plan, self.paths.root):
            print(f"node check: {found.check} {found.result}: {found.reason}. {found.fix}", flush=True)
        context, lease = join(self.plan, self.attempt, self.node_rank, self._beat)
        companions = self.companions = Companions(self.plan, self.attempt, self.node_rank)
        try:
            torchrun = start_torchrun(self.plan, context, companions.rank_env, self.fork_server, self._beat)
            companions.start(rank_environment(self.plan, context))
            end = self._follow(torchrun, companions)
            companions.finish(end.code, self._beat)
            return end
        finally:
            companions.close()
            if lease is not None:
                lease.release()

    def _follow(self, torchrun: Torchrun, companions: Companions) -> NodeEnd:
        """Wait for torchrun, obey the control files and watch the peers."""
        watch = PeerWatch(self.attempt, self._watched(), self.plan.peer_timeout_s)
        metrics = RunPaths(self.attempt.run_dir).metrics
        ranks = RankWatch(self.tag, self.paths, self.ranks, metrics, self.plan.hang)
        failure = FailureWatch(self.paths, self.ranks.start, TERM_S)
        stopping = Stopping(self.plan.grace_s, self.plan.stop_signal, lambda: rank_processes(self.tag))
        stacks = StacksRequests(self.attempt, self.paths, self.ranks, lambda: rank_processes(self.tag))
        next_look = 0.0

        def look() -> NodeEnd | None:
            nonlocal next_look
            self._beat(lambda: companions.report(ranks.look()))
            if (abort := read_control_file(self.attempt.abort)) is not None:
                return self._end_now(torchrun, abort, failure)
            self._watch_time_limit()
            stopping.follow(read_control_file(self.attempt.stop))
            if stopping.is_over():
                self._end_ranks(torchrun, term_s=0.0 if stopping.has_signalled else TERM_S)
                return describe_forced_end(self.paths, self.plan.procs_per_node, self.plan.grace_s)
            # The other nodes need not wait until torchrun exits.
            if not stopping.has_signalled and (killed := failure.find_killed()) is not None:
                end_attempt(self.attempt, self.paths, killed.reason)
                return self._own_failure(torchrun, failure) or killed
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + PEERS_EVERY_S
                stacks.follow()
                if (lost := watch.find_lost()) is not None:
                    end_attempt(self.attempt, self.paths, lost.reason, lost.cause)
                if not stopping.has_signalled and failure.is_overdue():
                    # Spare torchrun itself: it has yet to report which rank failed first.
                    self._sweep(torchrun.pid, term_s=self.term_s)
            return None

        looks = Patience(self.plan.peer_timeout_s)
        while (code := torchrun.poll()) is None:
            if (end := looks.call(look)) is not None:
                return end
            time.sleep(POLL_S)
        return describe_end(code, self.attempt, self.paths, failure.failed_at, stopping.signal)

    def _beat(self, look: Callable[[], NodeReport] | None = None) -> None:
        self.heartbeat.beat(look)
        self.guard.check()
        self.log_watch.look()

    def _watched(self) -> list[int]:
        if not self.plan.shared_disk:  # peers are not visible from here: the supervisor watches and copies the files
            return []
        return [0] if self.node_rank else list(range(1, len(self.plan.nodes)))

    def _watch_time_limit(self) -> None:
        limit = self.plan.time_limit_s
        if limit is None or self.node_rank != 0 or self.plan.is_limited_by_scheduler:
            return
        if time.monotonic() - self.started > limit - self.plan.grace_s and not self.attempt.stop.exists():
            write_request(self.attempt.stop, StopReason.TIME, f"the time limit of {limit} s is near")

    def _end_now(self, torchrun: Torchrun, abort: ControlFile, failure: FailureWatch) -> NodeEnd:
        if abort.cause == AbortReason.HANG:  # what fails now is a victim
            collect_evidence(self.paths, rank_processes(self.tag), self._beat)
            own = None
        else:
            own = self._own_failure(torchrun, failure) if not abort.is_cancel and failure.has_begun() else None
        lost = abort.cause == AbortReason.LOST
        self._end_ranks(torchrun, min(self.term_s, TERM_OF_VICTIMS_S) if lost else self.term_s)
        return own or NodeEnd(1, f"{abort.cause}: {abort.reason}".rstrip(": "), cause=Cause.ABORT)

    def _own_failure(self, torchrun: Torchrun, failure: FailureWatch) -> NodeEnd | None:
        """Return the failure of this node's own rank: the reason of the abort file must not hide the first failure."""
        self._sweep(torchrun.pid, term_s=self.term_s)
        with suppress(subprocess.TimeoutExpired):
            end = describe_end(torchrun.wait(TERM_S), self.attempt, self.paths, failure.failed_at)
            return end if end.failed_rank is not None else None
        return None

    def _end_ranks(self, torchrun: Torchrun, term_s: float) -> None:
        self._sweep(term_s=term_s)
        torchrun.wait()

    def _sweep(self, *spare: int, term_s: float = 0.0) -> list[int]:
        """End this node's processes, also those without a parent or the tag; return the pids still alive."""
        me = os.getpid()
        living = find_living(RunPaths(self.attempt.run_dir), [self.node_rank])
        kept = living.pids if self.fork_server is not None else ()
        companions = self.companions.pids() if self.companions is not None else []
        spared = [me, self.guard.pid, *kept, *companions, *spare]
        return processes.sweep(self.tag, below=[me, *living.roots], spare=spared, term_s=term_s, meanwhile=self._beat)

    def _leave_fork_server(self, end: NodeEnd) -> None:
        """Leave the fork server to the next attempt if there may be one, or to the next run in a hold."""
        if self.fork_server is None:
            return
        abort = read_control_file(self.attempt.abort)
        is_last = end.code in GOOD_ENDS or (abort is not None and abort.is_cancel)
        leave_fork_server(self.plan, self.node_rank, self.fork_server, is_last=is_last)


def end_attempt(attempt: AttemptPaths, paths: NodePaths, reason: str, cause: str = AbortReason.FAULT) -> None:
    """Create the abort file, which ends all nodes."""
    paths.reserve.unlink(missing_ok=True)  # a full disk must have room for it
    create_once(attempt.abort, cause, reason)
