"""Check the types of arguments from Python: a UsageError names the parameter of a wrong one.

Only types are checked here. Values are checked by the same code as those of the command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from numbers import Integral, Real
from typing import NoReturn

from fsdpctl.errors import UsageError


def check_path(name: str, value: object) -> str:
    if not isinstance(value, str | os.PathLike):
        _refuse(name, "a name or a path", value)
    return os.fspath(value)


def check_text(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        _refuse(name, "text or None", value)


def check_whole(name: str, value: object) -> None:
    if value is not None and not _is_whole(value):
        _refuse(name, "a whole number or None", value)


def check_seconds(name: str, value: object) -> None:
    # NaN is a number, but no time is ever later than it.
    if value is not None and (not isinstance(value, Real) or isinstance(value, bool) or value != value):
        _refuse(name, "a number of seconds or None", value)


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        _refuse(name, "True or False", value)


def check_texts(name: str, values: object) -> list[str]:
    found = _listed(values)
    if found is None or not all(isinstance(value, str) for value in found):
        _refuse(name, 'a list of strings like ["trainer.steps=50"]', values)
    return [str(value) for value in found]


def check_numbers(name: str, values: object) -> list[int]:
    found = _listed(values)
    if found is None or not all(_is_whole(value) for value in found):
        _refuse(name, "a list of whole numbers like [0, 3]", values)
    return [int(value) for value in found]  # type: ignore[call-overload]


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _listed(values: object) -> list[object] | None:
    """Return the values as a list; None for a single string, which Python would iterate over."""
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes) else None


def _refuse(name: str, wanted: str, value: object) -> NoReturn:
    raise UsageError(f"{name} must be {wanted}, got {value!r:.100}")
