"""Nodes that may be bad, by the evidence of all runs, and what a user has forgiven."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.codec import CodecError, read_json, write_json
from fsdpctl.contract.paths import DIR_MODE
from fsdpctl.errors import UsageError
from fsdpctl.runs.registry import home
from fsdpctl.runs.store import run_dirs
from fsdpctl.runs.suspects import Suspect, read_suspects


@dataclass(frozen=True)
class Evidence:
    """One reason to suspect a node."""

    run_id: str
    suspect: Suspect


def read_evidence(now: float) -> list[Evidence]:
    """Return the evidence that still counts, the newest first."""
    forgiven = _read_forgiven()
    found = [Evidence(run.root.name, one) for run in run_dirs() for one in read_suspects(run)]
    counts = [one for one in found if now < one.suspect.until and one.suspect.time > _when(forgiven, one.suspect)]
    return sorted(counts, key=lambda one: one.suspect.time, reverse=True)


def find_suspects(backend: str) -> dict[str, Evidence]:
    """Return the newest evidence against each suspect of a backend, by machine, the newest first."""
    found: dict[str, Evidence] = {}
    for one in read_evidence(time.time()):
        if one.suspect.backend == backend:
            found.setdefault(one.suspect.machine, one)
    return found


def forgive(name: str) -> list[Evidence]:
    """Forget the evidence against a node, by its name or address, and return it. Raise UsageError if there is none."""
    now = time.time()
    evidence = read_evidence(now)
    if not (found := [one for one in evidence if name in _names(one.suspect)]):
        known = ", ".join(dict.fromkeys(one.suspect.node for one in evidence)) or "none"
        raise UsageError(f"no evidence against a node {name}; suspects: {known}", hint="fsdpctl nodes")
    home().mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
    write_json(_forgiven(), {**_read_forgiven(), **{_key(one.suspect): now for one in found}})
    return found


def describe(found: Sequence[Evidence], *, is_used: bool) -> list[str]:
    """Return a line for each suspect that a run gets last or, if there are too few others, all the same."""
    what = "is used, though suspect: too few other nodes" if is_used else "is left out: suspect"
    return [
        f"{one.suspect.node} {what} ({one.run_id}: {one.suspect.reason}); fsdpctl nodes forgive {one.suspect.node}"
        for one in found
    ]


def _names(suspect: Suspect) -> tuple[str, ...]:
    return suspect.node, suspect.machine, suspect.machine.rpartition(":")[0]


def _key(suspect: Suspect) -> str:
    return f"{suspect.backend} {suspect.machine}"


def _when(forgiven: dict[str, float], suspect: Suspect) -> float:
    return forgiven.get(_key(suspect), 0.0)


def _read_forgiven() -> dict[str, float]:
    with suppress(FileNotFoundError, CodecError):
        return read_json(dict[str, float], _forgiven())
    return {}


def _forgiven() -> Path:
    return home() / "forgiven-nodes.json"
