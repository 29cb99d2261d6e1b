"""Durations as text: the time left, in the command line as in the trainer's log."""

from __future__ import annotations


def format_clock(seconds: float) -> str:
    """Return the time as 0:02:03, or 1d 02:03:04."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}d {hour:02d}:{minute:02d}:{second:02d}" if days else f"{hour}:{minute:02d}:{second:02d}"
