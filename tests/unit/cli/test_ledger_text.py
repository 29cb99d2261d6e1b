"""The time of a run as a line and as a table."""

from __future__ import annotations

from fsdpctl.cli.ledger_text import ledger_values, short_row, table_rows
from fsdpctl.ledger.account import Interval, Ledger, TimeUse


def ledger(*uses: tuple[TimeUse, float], knows_steps: bool = True) -> Ledger:
    intervals, begin = [], 1000.0
    for use, seconds in uses:
        intervals.append(Interval(use, begin, begin + seconds, 1))
        begin += seconds
    return Ledger(tuple(intervals), knows_steps)


def test_the_line_has_the_effective_time_and_the_largest_losses() -> None:
    uses = [(TimeUse.QUEUE, 600.0), (TimeUse.START, 5.0), (TimeUse.STEP, 50.0), (TimeUse.EVALUATION, 10.0)]
    uses += [(TimeUse.SAVE, 0.5), (TimeUse.REDONE, 20.0), (TimeUse.HANG, 10.0), (TimeUse.RESTART, 4.5)]
    found = ledger(*uses)
    assert short_row(found) == ("effective", "60% of 0:01:40; redone 20%, hang 10%, start 5%")
    assert table_rows(found)[0] == ("queue", "600.0", "85.7%")
    assert table_rows(found)[-2:] == [("total", "700.0", "100.0%"), ("effective", "60.0", "60.0%")]
    assert ledger_values(found)["effective"] == 0.6 and ledger_values(found)["ledger"]["hang"] == 10.0


def test_what_is_not_known_is_left_out() -> None:
    script = ledger((TimeUse.START, 1.0), (TimeUse.RUNNING, 9.0), knows_steps=False)
    assert short_row(script) == ("time", "0:00:10: running 90%, start 10%")
    assert table_rows(script)[-1][0] == "total"
    assert short_row(ledger((TimeUse.QUEUE, 90.0))) == ("time", "queue 0:01:30")
    assert short_row(ledger((TimeUse.STEP, 90.0))) == ("effective", "100% of 0:01:30")
    assert ledger_values(None) == {"effective": None, "ledger": {}}
