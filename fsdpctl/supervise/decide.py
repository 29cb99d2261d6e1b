"""What an attempt's end means, and what happens next. Pure: a table, tested row by row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fsdpctl.contract import GOOD_ENDS, AbortReason, NodeExit, State
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.records import NodeEnd, Outcome

MAX_FAILURES_WITHOUT_PROGRESS = 3

# As `node/ending.py` has it of a rank that neither a signal ended nor an error which it could tell.
_CODE_ONLY = re.compile(r"rank \d+ ended with exit code ")

_UNSAVED = {
    True: "not saved, a resume goes on from an older checkpoint",
    False: "not saved, a resume begins at step 0",
    None: "not saved, a resume starts the script again",
}
"""By whether there is a checkpoint."""


@dataclass(frozen=True)
class AttemptEnd:
    """All that is left of an attempt when none of its agents is alive."""

    num_nodes: int
    ends: Mapping[int, NodeEnd]  # by node rank; a node that died without a word is missing
    outcome: Outcome | None
    stop: ControlFile | None
    abort: ControlFile | None
    full_disk: str = ""  # what to add to a reason where the disk has no room
    has_older: bool | None = None  # whether the run has a checkpoint; None where only the user's script knows


@dataclass(frozen=True)
class Verdict:
    """One attempt judged: the state that it leaves the run in, why, and whether the run comes back by itself."""

    state: State
    reason: str
    restart: bool = False
    step: int = 0  # the newest that the run had reached
    is_stranded: bool = False  # the scheduler took the nodes and brings it back no more; a new submission would


def judge(attempt: AttemptEnd) -> Verdict:
    """Say how an attempt ended. What rank 0 recorded wins over how processes went down afterwards."""
    outcome = attempt.outcome
    if outcome is not None and outcome.status == "finished":
        return Verdict(State.SUCCEEDED, f"finished at step {outcome.step}")
    if attempt.abort is not None and attempt.abort.is_cancel:
        return Verdict(State.CANCELLED, attempt.abort.reason or "cancelled")
    if outcome is not None and outcome.status == "stopped" and outcome.checkpoint and not _was_broken_off(attempt):
        return Verdict(State.STOPPED, f"{stop_cause(attempt.stop)}; saved at step {outcome.step}")
    bad = {rank: end for rank, end in attempt.ends.items() if end.code not in GOOD_ENDS}
    missing = [rank for rank in range(attempt.num_nodes) if rank not in attempt.ends]
    if bad and not (missing and all(is_victim(end) for end in bad.values())):
        return Verdict(State.FAILED, root_cause(bad))
    if not attempt.ends and attempt.stop is not None and attempt.stop.is_users_stop:
        return Verdict(State.STOPPED, f"{stop_cause(attempt.stop)}; no agent has reported how it ended")
    if missing:
        return Verdict(State.LOST, f"the agent of node {missing[0]} vanished without a word{attempt.full_disk}")
    if all(end.code == NodeExit.FINISHED for end in attempt.ends.values()):
        return Verdict(State.SUCCEEDED, "finished")
    if all(end.code != NodeExit.STOPPED_UNSAVED for end in attempt.ends.values()):
        return Verdict(State.STOPPED, stop_cause(attempt.stop))
    why = outcome.reason if outcome is not None and outcome.status == "stopped" else ""
    return Verdict(State.STOPPED, f"{stop_cause(attempt.stop)}; {why or _UNSAVED[attempt.has_older]}")


def end_between(stop: ControlFile | None, abort: ControlFile | None) -> Verdict | None:
    """The end of a run that was to come back, by the notes in its last attempt; None where nobody wants it."""
    if abort is not None and abort.is_cancel:
        return Verdict(State.CANCELLED, abort.reason or "cancelled")
    if stop is not None:
        return Verdict(State.STOPPED, f"{stop_cause(stop)} between two attempts")
    return None


def root_cause(bad: Mapping[int, NodeEnd]) -> str:
    """The failure that began it. A rank ended by a signal comes before ranks that lost it as a peer."""

    def order(item: tuple[int, NodeEnd]) -> tuple[bool, bool, float]:
        end = item[1]
        return _obeyed(end), is_victim(end), end.time

    rank, end = min(bad.items(), key=order)
    return f"node {rank}: {end.reason}"


def is_victim(end: NodeEnd) -> bool:
    """Whether this node may have failed only because another did: its ranks lost a peer, or were told to end."""
    return _obeyed(end) or _CODE_ONLY.match(end.reason) is not None


def _obeyed(end: NodeEnd) -> bool:
    return end.reason.startswith(f"{AbortReason.FAULT}:")


def _was_broken_off(attempt: AttemptEnd) -> bool:
    """Nobody asked for a stop: the trainer took for one the TERM that ended its ranks after a fault."""
    return attempt.stop is None and attempt.abort is not None and attempt.abort.cause == AbortReason.FAULT


def stop_cause(stop: ControlFile | None) -> str:
    """In words, as far as the stop file says it."""
    return f"stopped ({stop.cause})" if stop is not None and stop.cause else "stopped"


@dataclass(frozen=True)
class History:
    """What led here, within one submission."""

    restarts_used: int
    restarts_allowed: int
    failures_without_progress: int  # in a row, this attempt included


def count_idle(steps: Sequence[int], before: int) -> int:
    """How many of the last attempts in a row ended without a new step; `before` is where the first one began."""
    best, idle = before, 0
    for step in steps:
        idle = 0 if step > best else idle + 1
        best = max(best, step)
    return idle


def decide_next(verdict: Verdict, history: History) -> Verdict:
    """Failures come back while restarts remain and something is gained; a stop or a cancel never does."""
    if verdict.state not in (State.FAILED, State.LOST) or history.restarts_allowed == 0:
        return verdict
    if history.restarts_used >= history.restarts_allowed:
        return replace(verdict, reason=f"{verdict.reason}; all {history.restarts_allowed} restarts are used up")
    if history.failures_without_progress >= MAX_FAILURES_WITHOUT_PROGRESS:
        count = history.failures_without_progress
        gave_up = f"{count} attempts in a row made no step, so it does not try again"
        return replace(verdict, reason=f"{verdict.reason}; {gave_up}")
    return replace(verdict, restart=True)
