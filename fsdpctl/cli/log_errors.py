"""Print why an attempt failed: before its lines in `logs`, and alone with `logs --errors`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdpctl.cli.output import log, print_data, print_json
from fsdpctl.contract import State

if TYPE_CHECKING:
    from fsdpctl.contract.paths import AttemptPaths, RunPaths


def print_root_cause(attempt: AttemptPaths) -> bool:
    """Print the first error of an attempt's ranks, else why nodes could not take part; return whether there is one."""
    from fsdpctl.explain.flight.describe import describe_finding
    from fsdpctl.explain.flight.read import find_mismatch
    from fsdpctl.logs.failure import describe, find_root_cause
    from fsdpctl.logs.hang import describe_hang
    from fsdpctl.logs.ranges import fold_nodes
    from fsdpctl.logs.sources import read_errors, read_faults
    from fsdpctl.runs.evidence import AttemptFacts

    finding = find_mismatch(attempt)
    flight = "" if finding is None else describe_finding(finding) + "\n"
    if (hang := describe_hang(attempt)) is not None:
        print_data(f"{hang}\n{flight}")
        return True
    facts = AttemptFacts(attempt)
    if facts.unreadable:
        log(f"not read, because permission is denied: the directory of {fold_nodes(facts.unreadable)}")
    if (cause := find_root_cause(read_errors(attempt), facts.ends, facts.abort)) is not None:
        waited = finding is not None and cause.first.rank in finding.ranks_waiting  # it failed for want of others
        print_data(f"{describe(cause)}\n{flight if waited else ''}")
        return True
    faults = read_faults(attempt)
    for reason, nodes in faults.items():
        print_data(f"{fold_nodes(nodes)} could not take part: {reason}\n")
    return bool(faults)


def hint_at_explain(run: RunPaths) -> None:
    """Log the command that shows what followed from the first failure, and what to change."""
    log(f"hint: fsdpctl explain {run.root.name}")


def print_errors(run: RunPaths, attempt: AttemptPaths, *, is_newest: bool) -> None:
    """Print why the attempt failed, by its ranks, its nodes or else the supervisor; then hint at older failures."""
    from fsdpctl.logs.ranges import fold

    if print_root_cause(attempt):
        if is_newest:
            hint_at_explain(run)
    else:
        log(f"no rank of attempt {attempt.number} failed first")
        if (reason := _failure(attempt)) is not None:
            print_data(f"attempt {attempt.number} {reason}")
    older = [one.number for one in run.attempts() if one.number < attempt.number and _failure(one) is not None]
    if is_newest and older:
        which = f"attempt {older[0]}" if len(older) == 1 else f"attempts {fold(older)}"
        log(f"hint: {which} failed before it: fsdpctl logs {run.root.name} --errors --attempt {older[-1]}")


def print_errors_json(run: RunPaths, attempt: AttemptPaths) -> None:
    """Print the same as one object."""
    from fsdpctl.cli.shapes.logs import Failures
    from fsdpctl.logs.failure import describe, find_root_cause
    from fsdpctl.logs.hang import describe_hang
    from fsdpctl.logs.sources import read_errors
    from fsdpctl.runs.evidence import AttemptFacts

    facts = AttemptFacts(attempt)
    hang = describe_hang(attempt)
    cause = find_root_cause(read_errors(attempt), facts.ends, facts.abort) if hang is None else None
    text = hang or (describe(cause) if cause else _failure(attempt) or "")
    first, followers = (cause.first, cause.followers) if cause else (None, ())
    print_json(Failures(run.root.name, attempt.number, text, first, followers))


def _failure(attempt: AttemptPaths) -> str | None:
    """Return the supervisor's verdict on an attempt that failed, as text."""
    from fsdpctl.runs.evidence import read_verdict

    verdict = read_verdict(attempt)
    if verdict is None or verdict.state not in (State.FAILED, State.LOST):
        return None
    return f"{verdict.state}: {verdict.reason}"
