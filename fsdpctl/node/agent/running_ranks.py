"""The ranks of this node while torchrun runs: wait for its end, obey the control files and watch the peers."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from fsdpctl.contract import AbortReason, Cause
from fsdpctl.contract.control_files import ControlFile, create_once, read_control_file
from fsdpctl.contract.node_report import NodeReport, RankReport
from fsdpctl.contract.paths import AttemptPaths, NodePaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.agent.answer_stacks import StacksRequests
from fsdpctl.node.agent.exit_status import FailureWatch, describe_end, describe_forced_end
from fsdpctl.node.agent.hang_evidence import collect_evidence
from fsdpctl.node.agent.heartbeats import PeerWatch
from fsdpctl.node.agent.patience import Patience
from fsdpctl.node.agent.rank_watch import RankWatch, rank_processes
from fsdpctl.node.agent.stop import Stopping, TimeLimit
from fsdpctl.node.agent.warm_torchrun import Torchrun
from fsdpctl.node.os import processes

POLL_S = 0.1
PEERS_EVERY_S = 0.5
TERM_S = 5.0
"""Seconds from TERM to KILL when ranks are ended."""
TRAINER_TERM_S = 0.5
"""The same for the bundled trainer: it ends at TERM at once, except in a collective, which under NCCL never returns."""
TERM_OF_VICTIMS_S = 1.0
"""The same after a node was lost: its peers wait in a collective for it, and cannot save together."""


class Beat(Protocol):
    """The agent's sign of life, with what is to be reported; called often."""

    def __call__(self, look: Callable[[], NodeReport] | None = None) -> None: ...


class Sweep(Protocol):
    """End this node's processes but for the agent's own and the pids in `spare`; return the pids still alive."""

    def __call__(self, *spare: int, term_s: float = 0.0) -> list[int]: ...


class RunningRanks:
    """The ranks of one node of an attempt, from the start of torchrun to its end."""

    def __init__(
        self,
        plan: LaunchPlan,
        attempt: AttemptPaths,
        node_rank: int,
        torchrun: Torchrun,
        *,
        report: Callable[[tuple[RankReport, ...]], NodeReport],
        time_limit: TimeLimit,
        beat: Beat,
        sweep: Sweep,
    ) -> None:
        """`report` adds to what is known of the ranks what companions have read."""
        self._plan, self._attempt, self._paths = plan, attempt, attempt.node(node_rank)
        self._torchrun, self._report, self._time_limit = torchrun, report, time_limit
        self._beat, self._sweep = beat, sweep
        self._tag = tag = processes.Tag(plan.run_id, node_rank)
        ranks = plan.ranks_of(node_rank)
        metrics = RunPaths(attempt.run_dir).metrics
        self._peers = PeerWatch(attempt, watched_peers(plan, node_rank), plan.peer_timeout_s)
        self._ranks = RankWatch(tag, self._paths, ranks, metrics, plan.hang)
        self._failure = FailureWatch(self._paths, ranks.start, TERM_S)
        self._stopping = Stopping(plan.grace_s, plan.stop_signal, self._find_ranks)
        self._stacks = StacksRequests(attempt, self._paths, ranks, self._find_ranks)
        self._next_look = 0.0
        self._term_s = TRAINER_TERM_S if plan.entry.is_bundled_trainer else TERM_S

    def follow(self) -> NodeEnd:
        """Return the exit record of the node, once torchrun has ended or the ranks were ended."""
        looks = Patience(self._plan.peer_timeout_s)
        while (code := self._torchrun.poll()) is None:
            if (end := looks.call(self._look)) is not None:
                return end
            time.sleep(POLL_S)
        return looks.retry(lambda: self._describe(code, self._stopping.signal), self._beat)

    def _look(self) -> NodeEnd | None:
        """Return the exit record if the ranks were ended."""
        self._beat(lambda: self._report(self._ranks.look()))
        if (end := self._obey() or self._end_after_kill()) is not None:
            return end
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + PEERS_EVERY_S
            self._stacks.follow()
            self._watch_peers()
            self._end_victims()
        return None

    def _obey(self) -> NodeEnd | None:
        """Follow the abort and stop files."""
        if (abort := read_control_file(self._attempt.abort)) is not None:
            return self._end_for(abort)
        self._time_limit.look()
        self._stopping.follow(read_control_file(self._attempt.stop))
        if not self._stopping.is_over():
            return None
        self._end_ranks(term_s=0.0 if self._stopping.has_signalled else TERM_S)
        return describe_forced_end(self._paths, self._plan.procs_per_node, self._plan.grace_s)

    def _end_after_kill(self) -> NodeEnd | None:
        """End the attempt if a signal ended a rank: the other nodes need not wait until torchrun exits."""
        if self._stopping.has_signalled or (killed := self._failure.find_killed()) is None:
            return None
        end_attempt(self._attempt, self._paths, killed.reason)
        return self._own_failure() or killed

    def _watch_peers(self) -> None:
        if (lost := self._peers.find_lost()) is not None:
            end_attempt(self._attempt, self._paths, lost.reason, lost.cause)

    def _end_victims(self) -> None:
        """End the peers of a rank that has failed, but not torchrun: it has yet to report which rank failed first."""
        if not self._stopping.has_signalled and self._failure.is_overdue():
            self._sweep(self._torchrun.pid, term_s=self._term_s)

    def _end_for(self, abort: ControlFile) -> NodeEnd:
        if abort.cause == AbortReason.HANG:  # what fails now is a victim
            collect_evidence(self._paths, self._find_ranks(), self._beat)
            own = None
        else:
            own = self._own_failure() if not abort.is_cancel and self._failure.has_begun() else None
        lost = abort.cause == AbortReason.LOST
        self._end_ranks(min(self._term_s, TERM_OF_VICTIMS_S) if lost else self._term_s)
        return own or NodeEnd(1, f"{abort.cause}: {abort.reason}".rstrip(": "), cause=Cause.ABORT)

    def _own_failure(self) -> NodeEnd | None:
        """Return the failure of this node's own rank: the reason of the abort file must not hide the first failure."""
        self._sweep(self._torchrun.pid, term_s=self._term_s)
        with suppress(subprocess.TimeoutExpired):
            end = self._describe(self._torchrun.wait(TERM_S))
            return end if end.failed_rank is not None else None
        return None

    def _describe(self, code: int, stop_signal: signal.Signals | None = None) -> NodeEnd:
        return describe_end(code, self._attempt, self._paths, self._failure.failed_at, stop_signal)

    def _end_ranks(self, term_s: float) -> None:
        self._sweep(term_s=term_s)
        self._torchrun.wait()

    def _find_ranks(self) -> dict[int, int]:
        return rank_processes(self._tag)


def watched_peers(plan: LaunchPlan, node_rank: int) -> list[int]:
    """Return the nodes that this one watches: the head all others, the others the head."""
    if not plan.shared_disk:  # peers are not visible from here: the supervisor watches and copies the files
        return []
    return [0] if node_rank else list(range(1, len(plan.nodes)))


def end_attempt(attempt: AttemptPaths, paths: NodePaths, reason: str, cause: str = AbortReason.FAULT) -> None:
    """Create the abort file, which ends all nodes."""
    paths.reserve.unlink(missing_ok=True)  # a full disk must have room for it
    create_once(attempt.abort, cause, reason)
