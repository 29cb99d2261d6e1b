"""Rows that make a rank fail, and show what fsdpctl names: `logs --errors` with the merged flight record."""

from __future__ import annotations

from pathlib import Path

import torch

from bench.gpu.launched import LaunchedRun, fsdpctl, require
from bench.gpu.result import Result
from bench.gpu.workspace import Workspace
from fsdpctl.cli.app import COMMANDS
from fsdpctl.explain.flight.describe import headline
from fsdpctl.explain.flight.finding import FlightFinding, FlightKind
from fsdpctl.explain.flight.read import find_mismatch

FAILING = Path("bench/gpu/failing")


def failure(workspace: Workspace, kind: str) -> Result:
    """Let the last rank fail in the way of `kind`; return the first line of its explanation, all of it as details."""
    with LaunchedRun.submit(workspace, "./job.yaml", 2, [f"args=[{kind}]"], cwd=FAILING) as launched:
        state = launched.wait_end()
        shown = fsdpctl(workspace, "logs", launched.run_id, "--errors")
        attempt = launched.paths.attempt(1)
        finding = find_mismatch(attempt)
        records = sorted(path.name for path in attempt.root.glob("node-*/flight-*"))
        explained = fsdpctl(workspace, "explain", launched.run_id, "--json") if "explain" in COMMANDS else ""
    first = shown.partition("\n")[0]
    missing = _miss(kind, shown, finding)
    require(state == "FAILED" and not missing, f"{state}: {missing or first}\n{shown}\n{records}")
    named = headline(finding) if finding is not None else "no flight record"
    return Result(found=f"{first}; {named}", details=(*shown.splitlines(), *explained.splitlines(), *records))


def _miss(kind: str, shown: str, finding: FlightFinding | None) -> str:
    """Return what was expected and is not there."""
    cuda = torch.cuda.is_available()
    words = {
        "stop": "its process is stopped",
        "oom": "OutOfMemoryError" if cuda else "allocate",
        "assert": "device-side assert" if cuda else "IndexError",
    }.get(kind, "flight record")
    if words not in shown:
        return f"{words!r} is not named"
    if kind in ("skip", "shape") and (finding is None or finding.kind is not FlightKind.MISMATCH):
        return "the ranks that disagree are not named"
    if kind == "stop" and (finding is None or finding.ranks_unrecorded != (1,) or finding.ranks_entered != (0,)):
        return "the collective in which the others wait is not named"
    return ""
