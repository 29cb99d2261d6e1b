"""Dataclasses to plain JSON values and back, with type checks: for records that cross machines and versions.

Knows str, int, float, bool, None, enums, Literal, tuple[X, ...], Mapping[str, X], unions and dataclasses. In a union
of dataclasses the key `kind` holds the class name.
"""

from __future__ import annotations

import dataclasses
import json
import os
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from fsdpctl.contract.files import NO_FILE, read_bytes, replace_file

T = TypeVar("T")

_SCALARS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}


class CodecError(ValueError):
    """A JSON value does not fit its type. The message starts with the key path."""


def encode(value: Any) -> Any:
    """Return `value` as JSON-ready dicts, lists and scalars."""
    if type(value) in _SCALARS:  # most values are, and the checks for the others take time
        return value
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields} if getattr(value, "__tagged__", False) else fields
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def decode(cls: type[T], value: Any) -> T:
    """Build a `cls` from the output of `encode`. Raise CodecError for unknown keys and wrong types."""
    return typing.cast(T, _decode(cls, value, ""))


def write_json(path: Path, value: Any) -> None:
    """Write `value` to a temporary file, flush it to disk and rename it to `path`; mode 0600."""
    write_text(path, json.dumps(encode(value), indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace the content of `path` atomically: a reader sees the old or the new text; mode 0600."""
    replace_file(path, text.encode(), str(os.getpid()), durable=True)


def read_json(cls: type[T], path: Path) -> T:
    """Read what `write_json` wrote. Raise FileNotFoundError, or CodecError with the file's name."""
    try:
        return decode(cls, json.loads(read_bytes(path).decode()))
    except OSError as error:
        if error.errno != NO_FILE:
            raise
        raise CodecError(f"{path}: {error.strerror}") from None
    except (CodecError, ValueError, RecursionError) as error:
        raise CodecError(f"{path}: {error}") from None


def find_json(cls: type[T], path: Path) -> T | None:
    """Return what `read_json` reads; None if there is no such file or it cannot be read."""
    try:
        return read_json(cls, path)
    except (FileNotFoundError, CodecError):
        return None


def _decode(hint: Any, value: Any, path: str) -> Any:
    if hint in _SCALARS:  # first, because most values are scalars: `ls` reads thousands of records
        return _decode_scalar(hint, value, path)
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _decode_dataclass(hint, value, path)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(args, value, path)
    if origin is typing.Literal:
        if value in args:
            return value
        raise CodecError(f"{path}: {value!r} is not one of {', '.join(map(repr, args))}")
    if origin is tuple:
        _expect(isinstance(value, list | tuple), "a list", value, path)
        return tuple(_decode(args[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin in (dict, Mapping):
        _expect(isinstance(value, dict), "a mapping", value, path)
        return {key: _decode(args[1], item, _join(path, key)) for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            allowed = ", ".join(str(member.value) for member in hint)
            raise CodecError(f"{path}: {value!r} is not one of {allowed}") from None
    raise TypeError(f"{path}: the codec does not support {hint}")


def _decode_scalar(hint: type, value: Any, path: str) -> Any:
    if hint is float and type(value) is int:
        return float(value)
    _expect(type(value) is hint, _SCALARS[hint], value, path)
    return value


def _decode_dataclass(cls: type, value: Any, path: str) -> Any:
    _expect(isinstance(value, dict), "a mapping", value, path)
    known, required = _fields(cls)
    given = {key: item for key, item in value.items() if not (key == "kind" and "kind" not in known)}
    if unknown := sorted(given.keys() - known.keys()):
        raise CodecError(f"{_join(path, unknown[0])}: unknown key; known are {', '.join(known)}")
    if missing := [name for name in required if name not in given]:
        raise CodecError(f"{_join(path, missing[0])}: missing")
    try:
        return cls(**{key: _decode(known[key], item, _join(path, key)) for key, item in given.items()})
    except CodecError:
        raise
    except ValueError as error:
        raise CodecError(f"{path}: {error}" if path else str(error)) from None


@cache
def _fields(cls: type) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a dataclass with their types, and the required ones. Cached: evaluating types is slow."""
    hints, fields = typing.get_type_hints(cls), dataclasses.fields(cls)
    required = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    return {f.name: hints[f.name] for f in fields}, required


def _decode_union(options: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in options:
        return None
    tagged = [o for o in options if isinstance(o, type) and dataclasses.is_dataclass(o)]
    if tagged and isinstance(value, dict) and "kind" in value:
        for option in tagged:
            if option.__name__ == value["kind"]:
                return _decode(option, value, path)
        raise CodecError(f"{path}: unknown kind {value['kind']!r}")
    errors = []
    for option in options:
        if option is type(None):
            continue
        try:
            return _decode(option, value, path)
        except CodecError as error:
            errors.append(error)
    raise errors[0] if errors else CodecError(f"{path}: null is not allowed here")


def _expect(ok: bool, expected: str, value: Any, path: str) -> None:
    if not ok:
        raise CodecError(f"{path or 'the document'}: expected {expected}, got {value!r:.60}")


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
