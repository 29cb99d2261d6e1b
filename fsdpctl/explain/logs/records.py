"""Lines of a log that are records with named fields: JSON objects and logfmt, as collectors and loggers write them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_TAKEN = ("log", "line", "message", "msg")
"""Where collectors have the line of a program, beside its `stream`: Docker, Fluent Bit, Loki."""
_RANKS = {"rank", "global_rank", "world_rank", "rank_id", "process_rank", "dist_rank", "r"}
_LEVELS = ("level", "lvl", "lv", "severity", "levelname", "loglevel", "log.level", "level.name", "record.level.name")
_ERRORS = re.compile(r"(?i)\W*(?:e|err|error|f|c|fatal|crit|critical|panic|severe|alert|emerg|emergency|50|60)\W*$")
_TYPES = re.compile(
    r"(?:exc|exception|error|err|exc_info)[._]?(?:type|class|kind|name)|exc|type|exception|error|err|exception\.0\.exc_type"
)
_CLASS = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Timeout|Exit|Failure)$")
_TEXTS = (
    *("err", "error", "exception", "exc", "exc_info", "exc_value", "exc_msg", "exception.0.exc_value"),
    *("exception.message", "error.message", "err.message", "exception_message", "error_message"),
    *("reason", "detail", "msg", "message", "event", "text", "m"),
)
"""Where loggers have the text of an error, the most precise first."""
_WITHOUT_TYPE = {"err", "error", "exception", "exc"}
_TIMES = ("ts", "time", "timestamp", "@timestamp", "asctime", "t")
_FIELD = re.compile(r'([\w.@-]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?:\s+|$)')
_LOGFMT = re.compile(
    r"(?=(?:time|ts|t|timestamp|level|lvl|lv|severity|msg|rank)=)(?:.*?\s)?(?:level|lvl|lv|severity)="
    r'"?(?i:e|err|error|f|fatal|c|crit|critical|panic|severe|alert|emerg)\b'
)
_BEHIND_LEVEL = re.compile(r"(?:\[?\d{4}-\d\d-\d\d[T ]\S+ +)?\[?(?:ERROR|CRITICAL|FATAL)\]?:? +(?=\w+=\S+ \w+=)")
"""A line of logfmt that reports an error; the rank of any other one is read as a prefix."""
_TRACEBACK = "Traceback (most recent call last)"
_DEPTH = 4


@dataclass(frozen=True)
class Record:
    """What a record has of a log: the rank that wrote it, and the lines of a program or of an error."""

    rank: int | None
    lines: tuple[str, ...]


def read_record(line: str) -> Record | None:
    """Return what a line has of a log if it is a record: a line that a collector took, a traceback, an error with its
    type and its text; the line itself if it is neither. Return None for a line that is no record."""
    if line.startswith('{"'):
        fields = _read_json(line)
    elif _LOGFMT.match(line):
        fields = {name: _unquote(value) for name, value in _FIELD.findall(line)}
    elif (level := _BEHIND_LEVEL.match(line)) is not None:
        fields = {"level": "error", **{name: _unquote(value) for name, value in _FIELD.findall(line, level.end())}}
    else:
        return None
    return None if fields is None else Record(_rank_of(fields), tuple(_lines_of(fields)) or (line,))


def _read_json(line: str) -> dict[str, str] | None:
    """Return the fields of a JSON object, those of inner ones with the names of both and a period between."""
    try:
        return dict(_flatten(json.loads(line), "", _DEPTH))
    except (ValueError, RecursionError):
        return None


def _flatten(value: object, name: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list) and depth:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _flatten(inner, f"{name}.{key}" if name else str(key), depth - 1)
    elif isinstance(value, str | int | float):
        yield name, str(value)


def _unquote(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value))
    except ValueError:
        return value[1:-1]


def _rank_of(fields: Mapping[str, str]) -> int | None:
    ranks = (value for name, value in fields.items() if name.rpartition(".")[2].lower() in _RANKS)
    return next((int(rank) for rank in ranks if rank.isdecimal() and len(rank) <= 6), None)


def _lines_of(fields: Mapping[str, str]) -> list[str]:
    if "stream" in fields and (taken := next((fields[key] for key in _TAKEN if key in fields), None)) is not None:
        return taken.splitlines() or [""]
    time = next((fields[key] for key in _TIMES if key in fields), "")
    tracebacks = [text for text in fields.values() if _TRACEBACK in text]
    if tracebacks:
        return [time, *"\n".join(tracebacks).splitlines()]
    level = next((fields[key] for key in _LEVELS if key in fields), "")
    if not _ERRORS.match(level):
        return []
    first, *others = _error_of(fields).splitlines() or [""]
    return [f"{time} {first}".lstrip() if time[:4].isdecimal() else first, *others] if first else []


def _error_of(fields: Mapping[str, str]) -> str:
    """Return an error as Python prints it: what a field has as a whole, or of those for its type and for its text; a
    text without a type is an error where a rank has it."""
    texts = [(name, fields[name]) for name in _TEXTS if fields.get(name)]
    if whole := next((text for _, text in texts if _CLASS.match(text.partition(": ")[0]) and ": " in text), None):
        return whole
    types = (value for name, value in fields.items() if _TYPES.fullmatch(name) and _CLASS.match(value))
    kind = next(types, "")
    name, text = next(((name, text) for name, text in texts if text != kind), ("", ""))
    if not kind and name in _WITHOUT_TYPE and _rank_of(fields) is not None:
        kind = "Error"
    return f"{kind}: {text}" if kind and text else kind or text
