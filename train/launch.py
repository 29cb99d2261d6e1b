"""The launcher's variables for a rank, and the files that the rank writes for it. All may be missing, by hand."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.contract import Cause, Env, NodeExit, RankFailure
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.events import Actor, Event, EventKind, write_event
from fsdpctl.contract.first_failure import classify, find_errno, find_variable, name_error, name_kinds
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.records import Outcome, RankError
from train.errors import TrainError


@dataclass(frozen=True)
class LaunchEnv:
    """The launcher's environment variables, read once."""

    attempt: int  # 0: by hand
    node_rank: int
    run_dir: Path | None
    node_dir: Path | None
    stop_file: Path | None
    grace_s: float | None  # from a stop to the end by force
    preempt_grace_s: float | None  # the same for a preemption
    outcome_file: Path | None
    shared_disk: bool  # all nodes have one run directory

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> LaunchEnv:
        """Read the variables that `fsdpctl.contract.Env` names."""

        def path(name: str) -> Path | None:
            return Path(env[name]) if env.get(name) else None

        def seconds(name: str) -> float | None:
            return float(env[name]) if env.get(name) else None

        return cls(
            attempt=int(env.get(Env.ATTEMPT) or 0),
            node_rank=int(env.get(Env.NODE_RANK) or 0),
            run_dir=path(Env.RUN_DIR),
            node_dir=path(Env.NODE_DIR),
            stop_file=path(Env.STOP_FILE),
            grace_s=seconds(Env.GRACE),
            preempt_grace_s=seconds(Env.PREEMPT_GRACE),
            outcome_file=path(Env.OUTCOME_FILE),
            shared_disk=env.get(Env.SHARED_DISK) != "0",
        )

    @property
    def abort_file(self) -> Path | None:
        """Exists once the attempt has to end at once: cancelled, or failed on another node."""
        return RunPaths(self.run_dir).attempt(self.attempt).abort if self.run_dir and self.attempt else None

    def progress_file(self, rank: int) -> Path | None:
        """Return where the rank's agent reads its progress."""
        return NodePaths(self.node_dir).rank_progress(rank) if self.node_dir else None

    def work_log(self, rank: int) -> Path | None:
        """Return where rank 0 records what it works at; None for the others."""
        return NodePaths(self.node_dir).work_log if self.node_dir and rank == 0 else None

    def report_failure(self, rank: int, error: Exception, step: int) -> None:
        """Write what ended this rank; by its time the launcher finds the first failure among those that followed."""
        expected = isinstance(error, TrainError)
        message = str(error) if expected else name_error(error)
        cause = error.cause if isinstance(error, TrainError) else Cause.EXCEPTION
        if rank == 0:
            self.report(Outcome("failed", step, None, message))
        if self.node_dir:
            trace = "".join(traceback.format_exception(error))
            failure = RankFailure.EXCEPTION if expected else classify(error)
            record = RankError(
                rank,
                self.node_rank,
                time.time(),
                message,
                trace,
                expected,
                failure,
                cause,
                kinds=name_kinds(error),
                errno=find_errno(error),
                variable=find_variable(error, os.environ),
            )
            write_json(NodePaths(self.node_dir).rank_error(rank), record)

    def record_event(self, kind: EventKind, text: str, **values: Any) -> None:
        """Record an event for the history of the run; `values` are other fields of it. Rank 0 only."""
        if self.node_dir:
            event = Event(kind, round(time.time(), 3), Actor.RANK, text, self.attempt, **values)
            write_event(NodePaths(self.node_dir).events, event)

    def report(self, outcome: Outcome) -> None:
        """Write the outcome for the launcher. Rank 0 only."""
        if self.outcome_file:
            write_json(self.outcome_file, outcome)

    def exit_code(self, outcome: Outcome) -> int:
        """Return 0 when finished, or under a launcher: torchrun would report the code of a stopped run as a crash."""
        if outcome.status == "finished" or self.outcome_file:
            return NodeExit.FINISHED
        return NodeExit.STOPPED if outcome.checkpoint else NodeExit.STOPPED_UNSAVED
