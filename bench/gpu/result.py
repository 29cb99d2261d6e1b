"""The result of a row, and its output: a JSON line at once, the table in the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Result:
    """A row's numbers; what it does not measure is None."""

    tokens_per_s_gpu: float | None = None
    step_ms: float | None = None
    p99_over_p50: float | None = None
    stall_ms: float | None = None  # of one save
    save_s: float | None = None  # the longest
    peak_gib: float | None = None
    first_step_s: float | None = None  # from the start of torchrun to the end of its first step
    losses: tuple[float, ...] = ()
    sequences: int | None = None  # of the batch that the losses are of
    found: str = ""
    details: tuple[str, ...] = ()  # in the JSON line only


HEADER = (
    *("row", "tokens/s/GPU", "of others", "step ms", "p99/p50", "stall ms", "save s", "peak GiB", "first step s"),
    *("last loss", "largest difference", "found"),
)
COMPARED = ("of others", "last loss", "largest difference")


def as_line(seconds: float, result: Result, row: Sequence[str]) -> str:
    """Return all numbers as JSON; of the losses only those in the table, and every tenth."""
    shown = {name: cell for name, cell in zip(HEADER, row, strict=True) if name in ("row", *COMPARED) and cell}
    known = {key: value for key, value in asdict(result).items() if key != "losses" and value not in (None, "", ())}
    curve = {"losses": [round(loss, 4) for loss in result.losses[::10]]} if result.losses else {}
    return json.dumps({**shown, "seconds": round(seconds, 1), **known, **curve})


def as_row(name: str, result: Result, others: Mapping[str, Result], compares: str) -> Sequence[str]:
    """Return the row of the table; `others` are the results to compare with, by the number that `compares` names."""
    ratios, differences = [], []
    for other, theirs in others.items():
        ours, reference = getattr(result, compares), getattr(theirs, compares)
        if ours and reference:
            ratios.append(f"{ours / reference:.3f} of {other}")
        if result.losses and result.sequences == theirs.sequences:
            pairs = zip(result.losses, theirs.losses, strict=False)
            differences.append(f"{max(abs(a - b) / abs(b) for a, b in pairs):.1e} from {other}")
    return (
        name,
        _text(result.tokens_per_s_gpu, ",.0f"),
        "; ".join(ratios),
        _text(result.step_ms, ".1f"),
        _text(result.p99_over_p50, ".3f"),
        _text(result.stall_ms, ".0f"),
        _text(result.save_s, ".2f"),
        _text(result.peak_gib, ".1f"),
        _text(result.first_step_s, ".1f"),
        f"{result.losses[-1]:.4f}" if result.losses else "",
        "; ".join(differences),
        result.found,
    )


def _text(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
