"""Compare two runs."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from fsdpctl.comparison.code import compare_code, read_versions
from fsdpctl.comparison.configuration import compare_configuration, differences
from fsdpctl.comparison.result import Comparison, Difference, LossAt
from fsdpctl.curves.read import read_rows
from fsdpctl.runs.evidence import RunFacts

NUM_LOSSES = 8
"""Steps at which losses are compared."""
_COLUMNS = ("loss", "tokens_per_s", "mfu")


def compare_runs(a: RunFacts, b: RunFacts) -> Comparison:
    """Return what differs. Raise CodecError and OSError if a record cannot be read."""
    steps_a, steps_b = _read_steps(a), _read_steps(b)
    hosts = _hosts(a), _hosts(b)
    return Comparison(
        a=a.run_id,
        b=b.run_id,
        configuration=tuple(compare_configuration(a.paths, b.paths)),
        code=tuple(compare_code(a.paths, b.paths)),
        versions=tuple(differences(read_versions(a.paths), read_versions(b.paths))),
        hosts=Difference("hosts", *hosts) if hosts[0] != hosts[1] else None,
        results=tuple(_results(_summarize(a, steps_a), _summarize(b, steps_b))),
        loss=tuple(common_losses(steps_a["loss"], steps_b["loss"])),
    )


def common_losses(a: Mapping[int, float], b: Mapping[int, float], count: int = NUM_LOSSES) -> list[LossAt]:
    """Return the losses at a few steps that both have, from the first to the last of these."""
    both = sorted(a.keys() & b.keys())
    chosen = {round(part * (len(both) - 1) / (count - 1)) for part in range(count)} if both else ()
    return [LossAt(both[at], a[both[at]], b[both[at]]) for at in sorted(chosen)]


def _read_steps(run: RunFacts) -> dict[str, dict[int, float]]:
    """Return step -> value of each column."""
    found: dict[str, dict[int, float]] = {name: {} for name in _COLUMNS}
    for _, step, _, values in read_rows(run.paths, _COLUMNS):
        for name, value in zip(_COLUMNS, values, strict=True):
            if step is not None and value is not None:
                found[name][step] = value
    return found


def _summarize(run: RunFacts, steps: Mapping[str, Mapping[int, float]]) -> dict[str, Any]:
    verdict = run.newest.verdict if run.newest is not None else None
    outcome = run.newest.outcome if run.newest is not None else None
    return {
        "state": verdict.state if verdict is not None else None,
        "attempts": run.newest.number if run.newest is not None else 0,
        "last step": max(steps["loss"], default=None),
        "median tokens/s": _median(steps["tokens_per_s"]),
        "median MFU": _median(steps["mfu"]),
        "last loss": steps["loss"][max(steps["loss"])] if steps["loss"] else None,
        "held-out loss": outcome.summary.get("held_out_loss") if outcome is not None else None,
    }


def _median(values: Mapping[int, float]) -> float | None:
    return median(values.values()) if values else None


def _results(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    return [Difference(key, a[key], b[key]) for key in a if a[key] is not None or b[key] is not None]


def _hosts(run: RunFacts) -> list[str]:
    return [host for host in run.newest.hosts if host] if run.newest is not None else []
