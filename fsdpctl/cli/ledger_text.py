"""What a run's time was used for: one line for `status`, a table for `events`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fsdpctl.contract.clock import format_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdpctl.ledger.account import Ledger

HEADER = ("TIME OF THE RUN", "SECONDS", "SHARE")
SHOWN = 3
"""How many losses the line has, each of at least a percent."""


def short_row(ledger: Ledger) -> tuple[str, str]:
    """Return the row of `status`: the effective time and the largest losses."""
    from fsdpctl.ledger.account import EFFECTIVE, UNCOUNTED

    counted = {use: seconds for use, seconds in ledger.seconds.items() if use not in UNCOUNTED}
    if not counted:
        return "time", ", ".join(f"{use} {format_clock(seconds)}" for use, seconds in ledger.seconds.items())
    losses = {use: seconds for use, seconds in counted.items() if ledger.effective is None or use not in EFFECTIVE}
    shares = {use: seconds / ledger.counted_s for use, seconds in losses.items()}
    largest = sorted(shares.items(), key=lambda item: -item[1])[:SHOWN]
    parts = [f"{use} {share:.0%}" for use, share in largest if share >= 0.01]
    total = format_clock(ledger.counted_s)
    if ledger.effective is None:
        return "time", f"{total}: {', '.join(parts)}"
    return "effective", "; ".join([f"{ledger.effective:.0%} of {total}", *filter(None, [", ".join(parts)])])


def ledger_values(ledger: Ledger | None) -> dict[str, Any]:
    """Return the values of the keys that `status --json` and `events --json` have."""
    seconds = {str(use): round(seconds, 3) for use, seconds in ledger.seconds.items()} if ledger is not None else {}
    return {"effective": ledger.effective if ledger is not None else None, "ledger": seconds}


def table_rows(ledger: Ledger) -> Sequence[tuple[str, str, str]]:
    """Return the rows of the table: each use that has time, then their sum and the effective time."""
    uses = [(str(use), f"{seconds:.1f}", f"{seconds / ledger.total_s:.1%}") for use, seconds in ledger.seconds.items()]
    total = ("total", f"{ledger.total_s:.1f}", "100.0%")
    if ledger.effective is None:
        return [*uses, total]
    return [*uses, total, ("effective", f"{ledger.effective * ledger.counted_s:.1f}", f"{ledger.effective:.1%}")]
