"""`--since`: a time, as a duration before now or a date."""

from __future__ import annotations


def parse_since(text: str) -> float:
    """Return the time that a duration before now, or a local date, names. Raise UsageError."""
    import time
    from datetime import datetime

    from fsdpctl.errors import UsageError
    from fsdpctl.schema.types import parse_duration

    try:
        return time.time() - parse_duration(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(f"--since takes a duration like 90m or 2d, or a date like 2026-11-28, got {text!r}") from None
