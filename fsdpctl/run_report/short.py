"""The few lines on a run that has ended which `submit -f` and `status` have. Pure."""

from __future__ import annotations

from fsdpctl.contract.clock import format_clock
from fsdpctl.run_report.facts import Facts
from fsdpctl.run_report.notes import make_notes, plural

MOST_NOTES = 3


def used_rows(facts: Facts) -> list[tuple[str, str]]:
    """Return what was used, and the first notes."""
    if not facts.used_s:
        return []
    unit = "GPU" if facts.has_gpus else "rank"
    hours = f"{facts.node_hours:,.2f} node hours, {facts.rank_hours:,.2f} {unit} hours"
    notes = make_notes(facts)[:MOST_NOTES]
    rows = [("note" if row == 0 else "", f"{note.what}: {note.change}") for row, note in enumerate(notes)]
    return [("used", f"{format_clock(facts.used_s)} on {plural(facts.num_nodes, 'node')}: {hours}"), *rows]
