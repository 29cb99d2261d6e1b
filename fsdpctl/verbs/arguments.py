"""What callers from Python may give: each value is of its parameter's kind, or a UsageError names the parameter.

Only kinds are looked at here: whether a number or a name fits is said where the command line's words are checked, too.
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
    # NaN is a number, but no time would ever be later.
    if value is not None and (not isinstance(value, Real) or isinstance(value, bool) or value != value):
        _refuse(name, "a number of seconds or None", value)


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        _refuse(name, "True or False", value)


def check_texts(name: str, values: object) -> list[str]:
    found = _listed(values)
    if found is None or not all(isinstance(value, str) for value in found):
        _refuse(name, 'a list of texts like ["trainer.steps=50"]', values)
    return [str(value) for value in found]


def check_numbers(name: str, values: object) -> list[int]:
    found = _listed(values)
    if found is None or not all(_is_whole(value) for value in found):
        _refuse(name, "a list of whole numbers like [0, 3]", values)
    return [int(value) for value in found]  # type: ignore[call-overload]


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _listed(values: object) -> list[object] | None:
    """One text is no list of texts, though Python would take its letters."""
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes) else None


def _refuse(name: str, wanted: str, value: object) -> NoReturn:
    raise UsageError(f"{name} must be {wanted}, got {value!r:.100}")
