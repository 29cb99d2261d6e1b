"""Runs that are started, ended, entered, kept."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract import Cause, Phase, State


@dataclass(frozen=True)
class Started:
    """A run that was submitted."""

    run_id: str
    run_dir: str


@dataclass(frozen=True)
class Resumed:
    """A run that was resumed."""

    run_id: str
    run_dir: str
    has_new_fsdpctl: bool  # its nodes ran an older version before
    code_dir: str | None  # the directory whose code was copied again
    kept: tuple[str, ...]  # files that were not replaced, because ranks have changed them


@dataclass(frozen=True)
class Ended:
    """A run after `stop`, `cancel` or `supervise`."""

    run_id: str
    acted: bool  # false: there was nothing to do
    state: State
    phase: Phase
    cause: Cause | None
    reason: str


@dataclass(frozen=True)
class Shell:
    """The command that opens the shell."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class TensorBoard:
    """The command that starts TensorBoard."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class Pinned:
    """A run after `runs pin` or `runs unpin`."""

    run_id: str
    pinned: bool
    acted: bool  # false: it was so before


@dataclass(frozen=True)
class TriedTarget:
    """A target of `notify` that was sent a test notice."""

    name: str
    ok: bool
    problem: str | None
