"""What is stored of a sweep: its runs, whose ids are drawn before the first one starts, and their results."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract import State
from fsdpctl.contract.codec import CodecError, read_json, write_json
from fsdpctl.contract.files import take_lock
from fsdpctl.contract.paths import DIR_MODE, RunPaths
from fsdpctl.errors import BusyError, FsdpctlError
from fsdpctl.runs.registry import home

STORING_S = 2.0
"""How long a command that only shows a sweep may take to store what it has found, which takes milliseconds."""
_AGAIN_S = 0.02


@dataclass(frozen=True)
class SweptRun:
    """One run of a sweep; without a state it has not started."""

    name: str
    run_id: str
    values: Mapping[str, str]  # of the keys that vary
    state: State | None = None
    reason: str = ""
    step: int | None = None
    loss: float | None = None  # of the last step
    held_out_loss: float | None = None
    tokens_per_s: float | None = None


@dataclass(frozen=True)
class SweepRecord:
    """`sweep.json`."""

    name: str
    job: str
    profile: str
    fingerprint: str  # of all that was given, and of all jobs
    runs_root: str
    runs: tuple[SweptRun, ...]

    def paths(self, run: SweptRun) -> RunPaths:
        return RunPaths(Path(self.runs_root, run.run_id))


@dataclass(frozen=True)
class SweepPaths:
    """The directory of a sweep."""

    root: Path

    @property
    def record(self) -> Path:
        return self.root / "sweep.json"

    @property
    def stop(self) -> Path:
        """Exists once no further run may start."""
        return self.root / "stop"


def sweep_paths(name: str) -> SweepPaths:
    return SweepPaths(home() / "sweeps" / name)


def find_record(paths: SweepPaths) -> SweepRecord | None:
    """Return what is stored; None if there is none. Raise FsdpctlError if it cannot be read."""
    try:
        return read_json(SweepRecord, paths.record)
    except FileNotFoundError:
        return None
    except (CodecError, OSError) as error:
        raise FsdpctlError(
            f"sweep {paths.root.name} cannot be read: {error}", hint="--name begins another one"
        ) from None


def write_record(paths: SweepPaths, record: SweepRecord) -> None:
    paths.root.mkdir(DIR_MODE, parents=True, exist_ok=True)
    write_json(paths.record, record)


@contextmanager
def sweep_locked(paths: SweepPaths, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock of a sweep: one command starts its runs. Raise BusyError if it is not free within `wait_s`."""
    paths.root.mkdir(DIR_MODE, parents=True, exist_ok=True)
    deadline = time.monotonic() + wait_s
    while (descriptor := take_lock(paths.root / "lock")) is None:
        if time.monotonic() >= deadline:
            raise BusyError(f"another command is at work on sweep {paths.root.name}")
        time.sleep(_AGAIN_S)
    try:
        yield
    finally:
        os.close(descriptor)
