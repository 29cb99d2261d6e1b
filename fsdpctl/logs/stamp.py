"""Time stamps at the start of a line: ISO 8601 as Python's logging writes it, and glog as torch writes it.

A stamp without a zone is read in the zone of this machine: nodes of one cluster share theirs.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache

_RANK_MARK = r"(?:\[rank\d+\]:\s?)?"  # torch puts it before warnings and before each line of a traceback
_STAMP = r"""
    \[?
    (?: (?P<date>\d{4}-\d\d-\d\d)[T\ ] | [IWEFCDV](?P<month_day>\d{4})\  )
    (?P<clock>\d\d:\d\d:\d\d)
    (?P<fraction>[.,]\d+)?
    (?P<zone>Z|[+-]\d\d:?\d\d)?
    (?(month_day)(?:\s+\d+(?=\s))?)  # glog's thread id
"""
_STAMPED = re.compile(_RANK_MARK + _STAMP, re.VERBOSE | re.ASCII)
_HEAD = re.compile(f"{_RANK_MARK}(?:{_STAMP})?", re.VERBOSE | re.ASCII)
_DAY_S = 86_400


def parse_stamp(text: str, near: float) -> float | None:
    """Return the seconds since the epoch that `text` starts with, if any.

    glog names no year: the line is taken to be of the year that brings it nearest to `near`, when its file changed.
    """
    found = _STAMPED.match(text)
    if found is None:
        return None
    date, month_day, clock, fraction, zone = found.groups()
    whole = _iso(f"{date}T{clock}{zone or ''}") if date else _glog(month_day, clock, near // _DAY_S)
    if whole is None or fraction is None:
        return whole
    return whole + float(fraction.replace(",", "."))


def body(text: str) -> str:
    """Return `text` without stamp and rank mark: what is equal where ranks say the same."""
    head = _HEAD.match(text)
    return text[head.end() :] if head else text


# Both are cached because the lines of a log share their seconds, and a local time is slow to turn into an epoch.
@lru_cache(maxsize=4096)
def _iso(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None  # 2026-13-45, or year 0001 east of Greenwich: text that only looks like a stamp


@lru_cache(maxsize=4096)
def _glog(month_day: str, clock: str, near_day: float) -> float | None:
    near_s = near_day * _DAY_S
    year = datetime.fromtimestamp(near_s).year
    stamps = [_iso(f"{y}-{month_day[:2]}-{month_day[2:]}T{clock}") for y in (year - 1, year, year + 1)]
    return min((s for s in stamps if s is not None), key=lambda s: abs(s - near_s), default=None)
