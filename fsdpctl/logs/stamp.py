"""Time stamps at the start of a line: ISO 8601 as Python's logging writes it, and glog as torch writes it.

A stamp without a time zone is read in that of this machine, which the nodes of a cluster share.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache

_RANK_MARK = r"(?:\[rank\d+\]:\s?)?"  # torch writes it before warnings and each line of a traceback
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

    glog writes no year: of the possible years, the one closest to `near` is taken, the time of the file's last change.
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
    """Return `text` without stamp and rank mark, equal for the same message of different ranks."""
    head = _HEAD.match(text)
    return text[head.end() :] if head else text


# Both are cached: many lines share their second, and the conversion from local time is slow.
@lru_cache(maxsize=4096)
def _iso(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None  # like 2026-13-45, or year 0001 east of Greenwich: only looks like a stamp


@lru_cache(maxsize=4096)
def _glog(month_day: str, clock: str, near_day: float) -> float | None:
    near_s = near_day * _DAY_S
    year = datetime.fromtimestamp(near_s).year
    stamps = [_iso(f"{y}-{month_day[:2]}-{month_day[2:]}T{clock}") for y in (year - 1, year, year + 1)]
    return min((s for s in stamps if s is not None), key=lambda s: abs(s - near_s), default=None)
