"""The submitting machine's part of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.notify import NotifyTarget


@dataclass(frozen=True)
class SubmitHost:
    """The submitting machine, and the directory of the new run."""

    run_id: str
    run_dir: str
    submit_dir: str
    python: str  # the interpreter that runs fsdpctl
    gpus: tuple[str, ...]  # indices of this machine's GPUs, for local runs
    notify: tuple[NotifyTarget, ...] = ()  # of the user's settings
