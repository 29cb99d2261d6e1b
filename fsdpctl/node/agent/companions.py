"""The processes beside torchrun: one samples the GPUs, one reads the progress of a script, one serves each tracker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fsdpctl.commands.environment import given_env
from fsdpctl.contract.node_report import NodeReport, RankReport
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.agent.gpu_history import GpuHistory
from fsdpctl.node.agent.gpu_watch import GpuWatch
from fsdpctl.node.agent.progress_watch import ProgressWatch
from fsdpctl.node.agent.start_companion import start_companion
from fsdpctl.node.agent.trackers import Trackers


class Companions:
    """None of them can delay or fail the ranks, and sweeps during an attempt spare those that still have work.

    One that cannot be started, at a limit of processes or on a full disk, is missing.
    """

    def __init__(self, plan: LaunchPlan, attempt: AttemptPaths, node_rank: int) -> None:
        self._plan, self._attempt, self._node_rank = plan, attempt, node_rank
        self._progress: ProgressWatch | None = None
        self._gpus: GpuWatch | None = None
        self._gpu_history = GpuHistory(attempt.node(node_rank).gpu_history)
        self._trackers: Trackers | None = None

    def prepare(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Start what must be there before the ranks; return what those with this environment need in addition."""
        if self._node_rank == 0 and not self._plan.entry.is_bundled:
            self._progress = start_companion("progress", lambda: ProgressWatch(self._attempt))
        return self._progress.rank_env(env) if self._progress is not None else {}

    def start(self, env: Mapping[str, str]) -> None:
        """Start the others beside the ranks, whose environment has the secrets of trackers."""
        paths = self._attempt.node(self._node_rank)
        self._trackers = Trackers(self._plan, paths, self._attempt.number, env)
        if self._plan.device == "cuda":
            visible = given_env(self._plan, self._node_rank).get("CUDA_VISIBLE_DEVICES")
            self._gpus = start_companion("GPU samples", lambda: GpuWatch(visible))

    def report(self, ranks: tuple[RankReport, ...]) -> NodeReport:
        """Return the report of the node, with what they have read."""
        if self._progress is not None:
            ranks = (replace(ranks[0], script_step=self._progress.look()), *ranks[1:])
        if self._gpus is None:
            return NodeReport(ranks=ranks)
        gpus = self._gpus.look()
        self._gpu_history.add(gpus)
        return NodeReport(ranks=ranks, gpus=gpus, energy_j=self._gpus.energy_j)

    def pids(self) -> list[int]:
        """Return those that end by themselves."""
        progress = [self._progress.pid] if self._progress is not None else []
        return [*progress, *(self._trackers.pids() if self._trackers is not None else [])]

    def finish(self, code: int, beat: Callable[[], object]) -> None:
        """Let the last steps be read and then sent; `code` is that of the node's exit record."""
        self._close_progress()
        if self._trackers is not None:
            self._trackers.close(code, beat)

    def close(self) -> None:
        """Leave to the last sweep what has not ended."""
        self._trackers = None
        if self._gpus is not None:
            self._gpus.close()
        self._close_progress()

    def _close_progress(self) -> None:
        if self._progress is not None:
            self._progress.close()
            self._progress = None
