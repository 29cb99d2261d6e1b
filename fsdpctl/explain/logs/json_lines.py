"""Lines of a log that are JSON objects, as collectors and loggers write them."""

from __future__ import annotations

import json

_TAKEN = ("log", "line", "message", "msg")
"""Where collectors have the line of a program, beside its `stream`: Docker, Fluent Bit, Loki."""
_RANK = ("rank", "global_rank")
_MARKS = ("Traceback", '"stream"', *(f'"{key}"' for key in _RANK))


def read_json(line: str) -> tuple[int | None, list[str]]:
    """Return the rank that a JSON object names, and what it has of a log: a line that a collector took, or a traceback;
    any other line as it is."""
    if not line.startswith("{") or not any(mark in line for mark in _MARKS):
        return None, [line]
    try:
        record = json.loads(line)
    except ValueError:
        return None, [line]
    texts = {key: value for key, value in record.items() if isinstance(value, str)}
    return _rank_of(record), _lines_of(texts) or [line]


def _rank_of(record: dict[str, object]) -> int | None:
    ranks = (record.get(key) for key in _RANK)
    return next((rank for rank in ranks if type(rank) is int and rank >= 0), None)


def _lines_of(texts: dict[str, str]) -> list[str]:
    if "stream" in texts and (taken := next((texts[key] for key in _TAKEN if key in texts), None)) is not None:
        return taken.splitlines() or [""]
    tracebacks = [text for text in texts.values() if "Traceback" in text]
    return "\n".join(tracebacks).splitlines()
