"""A finding of the flight records as text."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.contract.source_files import is_users
from fsdpctl.explain.flight.finding import FlightFinding, FlightKind, FlightSide
from fsdpctl.logs.ranges import fold_ranks
from fsdpctl.logs.stack_text import without_start

SHOWN_FRAMES = 8
_TORCH = ("/torch/distributed/", "/torch/utils/", "/torch/_", "/torch/autograd/")


def describe_finding(finding: FlightFinding) -> str:
    """Return what holds the run: one line, then each side with its stack."""
    return "\n".join([headline(finding), *(line for side in finding.sides for line in _describe_side(side, finding))])


def headline(finding: FlightFinding) -> str:
    """Return one line: the operation, and the ranks that are not in it or disagree."""
    what = f"{finding.backend} {finding.op} number {finding.sequence} of process group {finding.group}"
    match finding.kind:
        case FlightKind.MISMATCH:
            return f"flight record: ranks disagree in {what}"
        case FlightKind.MISSING:
            return f"flight record: {fold_ranks(finding.ranks_missing)} did not enter {what}"
        case FlightKind.UNRECORDED:
            absent = fold_ranks(finding.ranks_unrecorded)
            return f"flight record: all ranks but {absent}, which left no record, wait in {what}"
        case FlightKind.ALL_ENTERED:
            return f"flight record: all ranks have entered {what}, and agree in it"


def summarize(finding: FlightFinding) -> tuple[str, ...]:
    """Return the operation, and each side in one line with the line of the user's code that called it."""
    return (headline(finding), *(_summarize_side(side, finding) for side in finding.sides))


def _summarize_side(side: FlightSide, finding: FlightFinding) -> str:
    what, *frames = _describe_side(side, finding)
    return what.strip() + (f", at {frames[0].strip()}" if frames else "")


def _describe_side(side: FlightSide, finding: FlightFinding) -> list[str]:
    ranks = fold_ranks(side.ranks)
    if side.has_entered:
        tensors = f": {' '.join(side.inputs) or 'nothing'} -> {' '.join(side.outputs) or 'nothing'}"
        first = f"{ranks} in {side.op}{tensors}"
    elif side.op:
        first = f"{ranks} in {side.op} of process group {side.group} instead"
    elif set(side.ranks) <= set(finding.ranks_unrecorded):
        first = f"{ranks} left no record" + ("; last seen at" if side.stack else ", and no stack")
    else:
        first = f"{ranks} outside of it"
    return [f"  {first}", *(f"    {frame}" for frame in _shorten(side.stack))]


def _shorten(stack: Sequence[str]) -> list[str]:
    """Return the innermost frame outside of torch and those of the user's code; without any of it, all but torch's."""
    start = next((number for number, frame in enumerate(stack) if not any(part in frame for part in _TORCH)), 0)
    frames = without_start(stack[start:])
    own = [frame for frame in frames[1:] if is_users(frame)]
    return [*frames[:1], *(own or frames[1:])][:SHOWN_FRAMES]
