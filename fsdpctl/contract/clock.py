"""Durations and times as text: the time left, in the command line as in the trainer's log; dates in local time."""

from __future__ import annotations

import time

MINUTE = "%Y-%m-%d %H:%M"
SECOND = f"{MINUTE}:%S"


def format_clock(seconds: float) -> str:
    """Return the time as 0:02:03, or 1d 02:03:04."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}d {hour:02d}:{minute:02d}:{second:02d}" if days else f"{hour}:{minute:02d}:{second:02d}"


def format_time(seconds: float, form: str = SECOND) -> str:
    """Return seconds since the epoch in local time; a text for a number that is no time, as in a damaged record."""
    try:
        return time.strftime(form, time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "at no known time"
