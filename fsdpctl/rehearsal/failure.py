"""Why a rehearsal failed, as text: the user's line first."""

from __future__ import annotations

from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.first_failure import headline
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.records import RankError
from fsdpctl.explain.categories import Role
from fsdpctl.logs.failure import find_root_cause
from fsdpctl.logs.sources import read_errors, read_faults
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.verbs.explain import explain_ended
from fsdpctl.verbs.status import RunStatus

_OUTPUT_LINES = 12


def describe_failure(run: RunPaths, status: RunStatus) -> str:
    """Return the first error; of a rank that exits by itself, as argparse does, the end of its output."""
    attempts = run.attempts()
    try:
        cause = _first_error(attempts[-1]) if attempts else None
    except (OSError, CodecError):
        cause = None
    if cause is None:
        faults = read_faults(attempts[-1]) if attempts else {}
        return "\n".join(dict.fromkeys([status.reason, *faults]))
    if not cause.traceback:
        return "\n".join([headline(cause), *_crashed_at(run, status)])
    return describe_error(cause, str(run.source), _last_output(attempts[-1], cause))


def _crashed_at(run: RunPaths, status: RunStatus) -> list[str]:
    """Return the user's lines in which a rank was that left no traceback, as after a signal, the innermost first."""
    ranks = explain_ended(run, status).ranks
    first = next((rank for rank in ranks if rank.role is Role.INITIATING), None)
    return [f"  at {frame}" for frame in reversed(first.frames)] if first is not None else []


def describe_error(error: RankError, source: str, output: list[str]) -> str:
    """Return the user's line, the message, and the traceback, or the output of a rank that left by itself. Pure."""
    place = error.place.removeprefix(f"{source}/")
    first = ": ".join(part for part in (place, headline(error)) if part)
    if "SystemExit" in error.kinds:
        return "\n".join([first, *output])
    frames = error.traceback.rstrip().splitlines()
    own = next((place for place, line in enumerate(frames) if f'File "{source}/' in line), 0)
    return "\n".join([first, *(line.replace(f'"{source}/', '"') for line in frames[own:-1])])


def _first_error(attempt: AttemptPaths) -> RankError | None:
    facts = AttemptFacts(attempt)
    cause = find_root_cause(read_errors(attempt), facts.ends, facts.abort)
    return cause.first if cause is not None else None


def _last_output(attempt: AttemptPaths, error: RankError) -> list[str]:
    try:
        text = read_bytes(attempt.node(error.node_rank).rank_log(error.rank)).decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-_OUTPUT_LINES:]
