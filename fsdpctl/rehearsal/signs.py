"""Watch a rehearsal until its first sign of progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum

from fsdpctl.contract import State
from fsdpctl.contract.files import read_tail
from fsdpctl.contract.paths import RunPaths
from fsdpctl.own_scripts.printed_steps import PrintedStep, find_printed_step
from fsdpctl.runs.progress import newest_save
from fsdpctl.verbs.explain import explain_ended
from fsdpctl.verbs.status import RunStatus
from fsdpctl.verbs.watch import watch

_LOG_BYTES = 65_536


class Sign(StrEnum):
    """What ended a rehearsal that found nothing wrong."""

    STEP = "step"
    PRINTED = "printed"
    """Rank 0 has printed a step with its loss, which nothing reports."""
    SAVE = "save"
    END = "end"
    TIME = "time"
    IMPORTS = "imports"
    """No rank can run on this machine: only the modules were looked for."""


def wait_until_started(run: RunPaths, report: Callable[[str], None]) -> float:
    """Return the monotonic time at which no queue is left to wait in; `report` gets each new reason to wait."""
    reason = ""
    for observed in watch(run):
        status = observed.status
        if status.state is not State.QUEUED:
            break
        if status.reason != reason:
            report(f"rehearsal waits for a node: {status.reason}")
            reason = status.reason
    return time.monotonic()


def wait_for_sign(
    run: RunPaths, deadline: float, *, finds_steps: bool
) -> tuple[Sign | None, RunStatus, PrintedStep | None]:
    """Return the first sign of progress; None if the run has failed before."""
    for observed in watch(run):
        status = observed.status
        if status.step is not None:
            return Sign.STEP, status, None
        if newest_save(run):
            return Sign.SAVE, status, None
        if finds_steps and status.state.is_alive and (printed := find_printed_step(_printed_lines(run))) is not None:
            return Sign.PRINTED, status, printed
        if time.monotonic() > deadline and status.state.is_alive:
            return Sign.TIME, status, None
    return (Sign.END if status.state is State.SUCCEEDED else None), status, None


def look(run: RunPaths, status: RunStatus) -> tuple[str, ...]:
    """Return where each rank is, and what rank 0 has printed last."""
    diagnosis = explain_ended(run, status).diagnosis
    places = [text.replace(f"{run.source}/", "") for text in (diagnosis.evidence if diagnosis is not None else ())]
    return (*places, *(f"rank 0 printed last: {line}" for line in _printed_lines(run)[-1:]))


def _printed_lines(run: RunPaths) -> list[str]:
    """Return the newest lines that rank 0 has printed, without empty ones."""
    try:
        text = read_tail(run.attempts()[-1].node(0).rank_log(0), _LOG_BYTES).decode(errors="replace")
    except (OSError, IndexError):
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]
