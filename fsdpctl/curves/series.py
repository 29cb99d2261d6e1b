"""Curves of runs as values, and which of them are shown by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

LABELS = {
    "loss": "loss",
    "held_out_loss": "held-out loss",
    "tokens_per_s": "tokens/s",
    "mfu": "MFU",
    "grad_norm": "gradient norm",
    "peak_memory_gib": "peak memory of rank 0, GiB",
    "gpu_memory_gib": "memory of the fullest GPU, GiB",
    "gpu_power_w": "power of all GPUs, W",
}
"""Shown where a run has them, in this order."""
ALSO_SHOWN = ("memory", "power")
"""Parts of names that a user's script gives to what else is shown: `gpu_memory_gib`, `power_w`."""
MOST_CURVES = 6
"""Of a run that has none of these: so many of its numbers are shown."""
MOST_SAVES = 25
"""That a chart marks. More would be a line of their own."""


@dataclass(frozen=True)
class Curve:
    """One number over the steps at which it is known and finite."""

    key: str  # its name in metrics.jsonl
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Mark:
    """Something that happened at a step."""

    kind: Literal["restart", "save"]
    step: int
    attempt: int


@dataclass(frozen=True)
class RunCurves:
    """The curves of one run."""

    run_id: str
    job: str
    curves: tuple[Curve, ...]  # of long runs thinned, with all minima and maxima
    marks: tuple[Mark, ...]  # restarts at their first step, and saves

    def curve(self, key: str) -> Curve | None:
        return next((curve for curve in self.curves if curve.key == key), None)


def label_of(key: str) -> str:
    """Return what a curve is called in a picture."""
    return LABELS.get(key, key)


def format_number(value: float, digits: int = 3) -> str:
    """Return a number as the scale of a chart has it."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def choose_keys(known: Sequence[str]) -> list[str]:
    """Return which of a run's numbers are shown where none was asked for."""
    usual = [key for key in LABELS if key in known]
    also = [key for key in known if key not in usual and any(part in key.lower() for part in ALSO_SHOWN)]
    return [*usual, *also] or list(known[:MOST_CURVES])


def keys_of(runs: Sequence[RunCurves]) -> list[str]:
    """Return the keys of all runs, each once, the usual ones first."""
    found = dict.fromkeys(curve.key for run in runs for curve in run.curves)
    return [*(key for key in LABELS if key in found), *(key for key in found if key not in LABELS)]
