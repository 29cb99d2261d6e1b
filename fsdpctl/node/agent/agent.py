"""The node agent: one per node and attempt, from the node check to the last sweep.

It runs torchrun, writes a heartbeat, obeys the stop and abort files and watches its peers. It exits only when no
process of the run is left on this node, and writes its records to `attempts/<n>/node-<r>/`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

from fsdpctl.contract import GOOD_ENDS, NodeExit
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import read_control_file
from fsdpctl.contract.first_failure import name_end
from fsdpctl.contract.node_report import NodeReport
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.agent.companions import Companions
from fsdpctl.node.agent.fork_server import ForkServer
from fsdpctl.node.agent.guard import Guard
from fsdpctl.node.agent.heartbeats import Heartbeat
from fsdpctl.node.agent.join import JoinError, join
from fsdpctl.node.agent.log_watch import LogWatch
from fsdpctl.node.agent.patience import Patience
from fsdpctl.node.agent.running_ranks import RunningRanks, end_attempt
from fsdpctl.node.agent.start_torchrun import rank_environment, start_torchrun
from fsdpctl.node.agent.stop import TimeLimit
from fsdpctl.node.agent.warm_start import find_fork_server, leave_fork_server, start_fork_server
from fsdpctl.node.agent.warm_torchrun import Torchrun
from fsdpctl.node.checks.node_check import NodeCheckError, check_node
from fsdpctl.node.os import processes
from fsdpctl.node.os.log import log
from fsdpctl.node.os.resources import ResourceWatch
from fsdpctl.node.warm.living import find_living


class Agent:
    """One node's part of one attempt."""

    def __init__(self, plan: LaunchPlan, attempt: AttemptPaths, node_rank: int) -> None:
        self.plan, self.attempt, self.node_rank = plan, attempt, node_rank
        self.paths = attempt.node(node_rank)
        self.tag = processes.Tag(plan.run_id, node_rank)
        self.heartbeat = Heartbeat(self.paths.heartbeat)
        self.time_limit = TimeLimit(plan, attempt, node_rank)
        self.log_watch = LogWatch(self.paths, plan.ranks_of(node_rank))
        self.companions = Companions(plan, attempt, node_rank)
        self.fork_server: ForkServer | None = None
        self.resources = ResourceWatch.begin()

    def run(self) -> NodeEnd:
        """Check the node, join the others, run the ranks and sweep; return the exit record, which is on disk then."""
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
        patience = Patience(self.plan.peer_timeout_s)
        patience.retry(lambda: self._leave_fork_server(end), self._beat)
        if end.code not in GOOD_ENDS:
            end = replace(end, resources=self.resources.read(self.paths.root))
        if left:
            end = replace(end, code=end.code or 1, reason=f"{end.reason}; processes that could not be killed: {left}")
        end = replace(end, time=time.time())
        patience.retry(lambda: self._record(end), self._beat)
        self.guard.dismiss()
        return end

    def _run_ranks(self) -> NodeEnd:
        if self.plan.warm:
            self.fork_server = find_fork_server(self.plan, self.node_rank)
        self._sweep()  # ranks of an older attempt
        if self.plan.warm and self.fork_server is None:
            self.fork_server = start_fork_server(self.plan, self.attempt.number, self.node_rank)
        for found in check_node(self.plan, self.paths.root):
            log(f"node check: {found.check} {found.result}: {found.reason}. {found.fix}")
        context, lease = join(self.plan, self.attempt, self.node_rank, self._beat)
        try:
            env = rank_environment(self.plan, context)
            rank_env = {**env, **self.companions.prepare(env)}
            torchrun = start_torchrun(self.plan, context, rank_env, self.fork_server, self._beat)
            self.companions.start(env)
            end = self._running(torchrun).follow()
            self.companions.finish(end.code, self._beat)
            return end
        finally:
            self.companions.close()
            if lease is not None:
                lease.release()

    def _running(self, torchrun: Torchrun) -> RunningRanks:
        return RunningRanks(
            self.plan,
            self.attempt,
            self.node_rank,
            torchrun,
            report=self.companions.report,
            time_limit=self.time_limit,
            beat=self._beat,
            sweep=self._sweep,
        )

    def _beat(self, look: Callable[[], NodeReport] | None = None) -> None:
        self.guard.check()
        self._beat_without_guard(look)

    def _beat_without_guard(self, look: Callable[[], NodeReport] | None = None) -> None:
        self.heartbeat.beat(look)
        self.log_watch.look()

    def _sweep(self, *spare: int, term_s: float = 0.0) -> list[int]:
        """End this node's processes, also those without a parent or the tag; return the pids still alive."""
        me = os.getpid()
        living = find_living(RunPaths(self.attempt.run_dir), [self.node_rank])
        kept = living.pids if self.fork_server is not None else ()
        spared = [me, self.guard.pid, *kept, *self.companions.pids(), *spare]
        # A guard that was started during the sweep would be swept.
        beat = self._beat_without_guard
        return processes.sweep(self.tag, below=[me, *living.roots], spare=spared, term_s=term_s, meanwhile=beat)

    def _leave_fork_server(self, end: NodeEnd) -> None:
        """Leave the fork server to the next attempt if there may be one, or to the next run in a hold."""
        if self.fork_server is None:
            return
        abort = read_control_file(self.attempt.abort)
        is_last = end.code in GOOD_ENDS or (abort is not None and abort.is_cancel)
        leave_fork_server(self.plan, self.node_rank, self.fork_server, is_last=is_last)

    def _record(self, end: NodeEnd) -> None:
        """Write the exit record, and end the other nodes unless the end is good. Raise OSError."""
        if end.code not in GOOD_ENDS:
            end_attempt(self.attempt, self.paths, name_end(self.node_rank, end))
        self.paths.reserve.unlink(missing_ok=True)
        write_json(self.paths.end, end)
