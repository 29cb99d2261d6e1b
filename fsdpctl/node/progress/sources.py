"""All sources of one attempt, looked at together."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fsdpctl.commands.environment import working_directory
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.progress_regex import compile_progress_regex
from fsdpctl.node.os.processes import Tag, has_tag, rank_of
from fsdpctl.node.progress.event_files import EventFiles
from fsdpctl.node.progress.log_matcher import LogMatcher, SlowPatternError
from fsdpctl.node.progress.log_tail import LogTail
from fsdpctl.node.progress.metrics_writer import MetricsWriter
from fsdpctl.node.progress.step_report import Source
from fsdpctl.node.progress.trainer_posts import TrainerPosts
from fsdpctl.node.progress.trainer_server import TrainerServer


class ProgressSources:
    """The posts of a Trainer, the log of rank 0 and TensorBoard's files. What goes wrong is printed once."""

    def __init__(self, plan: LaunchPlan, attempt: AttemptPaths, server: TrainerServer | None) -> None:
        self._attempt, self._server, self._posts = attempt, server, TrainerPosts()
        self._writer = MetricsWriter(RunPaths(attempt.run_dir).metrics, attempt.number)
        self._tail = LogTail(attempt.node(0).rank_log(0), time.time())
        regex = plan.progress_regex
        self._matcher = LogMatcher(compile_progress_regex(regex)) if regex is not None else None
        roots = (Path(working_directory(plan)), RunPaths(attempt.run_dir).checkpoints)
        tag = Tag(plan.run_id, 0)
        self._event_files = EventFiles(roots, lambda pid: has_tag(pid, tag) and rank_of(pid) == 0)
        self._has_warned = False
        self.step: int | None = None  # the newest, unless the script writes metrics.jsonl itself

    def look(self, *, is_end: bool = False) -> None:
        """Write the steps that are new since the last look; `is_end`: no look follows."""
        self._read_posts()
        self._read_log()
        if self._writer.accepts(Source.TENSORBOARD):
            for report in self._event_files.read(time.monotonic(), is_end=is_end):
                self._writer.add(Source.TENSORBOARD, report)
            for damaged in self._event_files.take_damaged():
                _log(f"{damaged}: the file is damaged, and its later steps are not in metrics.jsonl")
        self.step = None if self._writer.has_other_writer() else self._writer.step
        if self._writer.refused_step is not None and not self._has_warned:
            self._has_warned = True
            _log(
                f"step {self._writer.refused_step} came after step {self._writer.step} and is not in metrics.jsonl: "
                "a step is the number since the beginning of the run, and not of an epoch"
            )

    def _read_posts(self) -> None:
        for arrived, body in self._server.take() if self._server is not None else ():
            report = self._posts.read(body, arrived, is_stopping=self._attempt.stop.exists())
            if report is not None:
                self._writer.add(Source.TRAINER, report)

    def _read_log(self) -> None:
        if self._matcher is None or not self._writer.accepts(Source.LOG):
            return
        try:
            for line in self._tail.read(time.time()):
                if (report := self._matcher.find(line)) is not None:
                    self._writer.add(Source.LOG, report)
        except SlowPatternError:
            self._matcher = None
            _log("progress_regex took too long for a line, and is not used any more")


def _log(text: str) -> None:
    print(f"progress: {text}", file=sys.stderr, flush=True)
