"""Why a node ended: from torchrun's exit code and report, the outcome of rank 0, and the ranks' error files."""

from __future__ import annotations

import errno
import re
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from fsdpctl.contract import GOOD_ENDS, Cause, NodeExit, RankFailure
from fsdpctl.contract.codec import find_json
from fsdpctl.contract.control_files import read_control_file
from fsdpctl.contract.files import NO_FILE, describe_disk, read_tail
from fsdpctl.contract.first_failure import describe_error, failure_order
from fsdpctl.contract.paths import AttemptPaths, NodePaths
from fsdpctl.contract.records import NodeEnd, Outcome, RankError

# torch/distributed/elastic/multiprocessing/api.py: "failed (exitcode: -9) local_rank: 0 (pid: 7) of binary: ..."
_REPORT = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)")
# It logs this before it waits: "Sending process 7 closing signal SIGTERM".
_WAITS_FOR_PEERS = "closing signal"
# Its summary names global ranks: "  rank      : 2 (local_rank: 0)".
_GLOBAL_RANK = re.compile(r"rank\s+: (\d+) \(local_rank: (\d+)\)")
# "  exitcode  : -15 (pid: 7)" follows it.
_EXIT = re.compile(r"rank\s+: (\d+) \(local_rank: \d+\)\s+exitcode\s+: (-?\d+) \(pid: (\d+)\)")
_CLOSED = re.compile(r"Sending process (\d+) closing signal")

_FINISHED = NodeEnd(NodeExit.FINISHED, "finished", cause=Cause.FINISHED)
_STOPPED = NodeEnd(NodeExit.STOPPED, "stopped", cause=Cause.STOP)
_STOPPED_UNSAVED = NodeEnd(NodeExit.STOPPED_UNSAVED, "not saved", cause=Cause.STOP)


def describe_end(
    code: int,
    attempt: AttemptPaths,
    paths: NodePaths,
    failed_at: float | None = None,
    stop_signal: signal.Signals | None = None,
) -> NodeEnd:
    """Turn torchrun's exit code into this node's exit record; `failed_at` is when its log first showed a failure.

    A rank that ends by the signal of the stop, or with a shell's exit code for it, has obeyed. Raise OSError.
    """
    if code == 0:
        return _good_end(attempt)
    report = _read_report(paths.torchrun_log)
    failure = first_failure(report)
    if failure is None:
        full = describe_disk(paths.root)
        reason = f"torchrun ended with {describe_code(code)}{full or f'; see {paths.torchrun_log.name}'}"
        return NodeEnd(1, reason, cause=Cause.TORCHRUN)
    exit_code, rank = failure
    if exit_code in (NodeExit.STOPPED, NodeExit.STOPPED_UNSAVED):
        return _STOPPED if exit_code == NodeExit.STOPPED else _STOPPED_UNSAVED
    if stop_signal is not None and exit_code in (-stop_signal, 128 + stop_signal) and attempt.stop.exists():
        return NodeEnd(NodeExit.STOPPED_UNSAVED, f"ended by {stop_signal.name} after the stop", cause=Cause.STOP)
    return _describe_failure(exit_code, rank, paths, failed_at or time.time(), own_exits(report))


def describe_forced_end(paths: NodePaths, num_ranks: int, grace_s: float) -> NodeEnd:
    """Return the exit record after the grace; ranks that then ended on TERM without an error may have saved."""
    if len(paths.rank_ends()) == num_ranks:
        return replace(_STOPPED, reason=f"ended by TERM {grace_s} s after the stop", is_forced=True)
    return replace(_STOPPED_UNSAVED, reason=f"ended by force {grace_s} s after the stop", is_forced=True)


def _describe_failure(
    exit_code: int, rank: int, paths: NodePaths, failed_at: float, exits: Mapping[int, int] = MappingProxyType({})
) -> NodeEnd:
    """Return the exit record after a failure: of the rank that torchrun saw fail first, or of one that reported more.

    Of a signal, torchrun alone reports: its rank is the first, whatever the others recorded. Of two ranks that end
    between two of its looks, torchrun names the lower one: `exits` has both.
    """
    recorded = [] if exit_code < 0 else _recorded_errors(paths)
    known = {error.rank for error in recorded}
    ended = {**exits, rank: exit_code}
    recorded += [_reported(one, code, paths, failed_at) for one, code in ended.items() if one not in known]
    error = min(recorded, key=failure_order)
    cause = Cause.SIGNAL if error.failure is RankFailure.SIGNAL else Cause.EXIT_CODE
    return NodeEnd(
        1,
        describe_error(error),
        failed_rank=error.rank,
        cause=error.cause if error.expected else cause,
        first_error=replace(error, traceback=""),
        exits={str(one): code for one, code in ended.items()},
    )


def _reported(rank: int, code: int, paths: NodePaths, failed_at: float) -> RankError:
    """Return the failure of a rank of which only the exit code is known."""
    failure = RankFailure.SIGNAL if code < 0 else RankFailure.EXIT_CODE
    return RankError(rank, paths.node_rank, failed_at, f"ended with {describe_code(code)}", "", failure=failure)


def _recorded_errors(paths: NodePaths) -> list[RankError]:
    found = [find_json(RankError, paths.rank_error(rank)) for rank in paths.rank_logs()]
    return [error for error in found if error is not None]


class FailureWatch:
    """Finds a failed rank in torchrun's log before torchrun itself exits.

    torchrun waits 30 s for the peers of that rank, whatever its shutdown timeout is, and only then reports the
    failure. Under NCCL those peers hang in a collective that can never complete.
    """

    def __init__(
        self, paths: NodePaths, first_rank: int, patience_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._paths, self._first_rank, self._patience_s, self._clock = paths, first_rank, patience_s, clock
        self._log = paths.torchrun_log
        self._since: float | None = None
        self.failed_at: float | None = None  # seconds since the epoch

    def has_begun(self) -> bool:
        """Return True once a rank of this node has failed."""
        if self._since is None and _WAITS_FOR_PEERS in _read_tail(self._log):
            self._since, self.failed_at = self._clock(), self.failed_at or time.time()
        return self._since is not None

    def is_overdue(self) -> bool:
        """Return True when torchrun has waited for the peers longer than `patience_s`."""
        return self.has_begun() and self._clock() - (self._since or 0.0) > self._patience_s

    def find_killed(self) -> NodeEnd | None:
        """Return this node's exit record if a signal ended the first rank: no other failure can be the cause then."""
        failure = first_failure(_read_tail(self._log), self._first_rank)
        if failure is None or failure[0] >= 0:
            return None
        self.failed_at = self.failed_at or time.time()
        return _describe_failure(*failure, self._paths, self.failed_at)


def _good_end(attempt: AttemptPaths) -> NodeEnd:
    outcome = find_json(Outcome, attempt.outcome)
    if outcome is None:  # a user's script writes none: exit 0 after a stop means that it obeyed
        stopped = read_control_file(attempt.stop) is not None
        return _STOPPED if stopped else _FINISHED
    if outcome.status == "finished":
        return _FINISHED
    if outcome.status == "stopped":
        end = _STOPPED if outcome.checkpoint is not None else _STOPPED_UNSAVED
        return replace(end, reason=outcome.reason or end.reason)
    return NodeEnd(1, outcome.reason or "failed", cause=Cause.EXCEPTION)


def first_failure(report: str, first_rank: int = 0) -> tuple[int, int] | None:
    """Return (exit code, global rank) of the first failure that torchrun reports, or None.

    Before torchrun has printed its summary, global ranks are counted from the node's `first_rank`.
    """
    found = _REPORT.search(report)
    if found is None:
        return None
    local_rank = int(found[2])
    ranks = {int(local): int(rank) for rank, local in _GLOBAL_RANK.findall(report)}
    return int(found[1]), ranks.get(local_rank, first_rank + local_rank)


def own_exits(report: str) -> dict[int, int]:
    """Return global rank -> exit code of the ranks that failed by themselves: torchrun did not end them."""
    closed = set(_CLOSED.findall(report))
    codes = {int(rank): int(code) for rank, code, pid in _EXIT.findall(report) if pid not in closed}
    return {rank: code for rank, code in codes.items() if code not in GOOD_ENDS}


def describe_code(code: int) -> str:
    """Return a text like `exit code 1`, with the signal's name for a negative code."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


def _read_tail(log: Path) -> str:
    """Return the same; empty where it cannot be read now: it is read again."""
    with suppress(OSError):
        return _read_report(log)
    return ""


def _read_report(log: Path) -> str:
    """Return the end of torchrun's log; empty if there is none. Raise OSError."""
    try:
        return read_tail(log, 65_536).decode("utf-8", errors="replace")
    except OSError as error:
        if error.errno not in (errno.ENOENT, NO_FILE):
            raise
        return ""
