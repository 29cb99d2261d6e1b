"""Every key that a user may write in a spec, from the models: for messages, completion and documentation."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True)
class Key:
    """One key: its path in the tree, and the class and type hint that describe it."""

    owner: type
    path: tuple[str, ...]
    hint: Any

    @property
    def dotted(self) -> str:
        return ".".join(self.path)

    @property
    def has_keys(self) -> bool:
        """True if the value is a mapping of known keys, or a list of such."""
        return any(True for _ in classes_in(self.hint))

    @property
    def is_mapping(self) -> bool:
        """True if the value is a mapping whose keys the user chooses."""
        return typing.get_origin(self.hint) is dict


def walk(cls: type, path: tuple[str, ...] = ()) -> Iterator[Key]:
    """Yield all keys of a model or dataclass, each followed by the keys inside it."""
    for name, hint in hints_of(cls).items():
        yield Key(cls, (*path, name), hint)
        for inner in classes_in(hint):
            yield from walk(inner, (*path, name))


def hints_of(cls: type) -> dict[str, Any]:
    """Return the fields of a model or dataclass with their type hints, including `Annotated`."""
    hints = typing.get_type_hints(cls, include_extras=True)
    if issubclass(cls, BaseModel):
        return {name: hints[name] for name in cls.model_fields}
    return {field.name: hints[field.name] for field in dataclasses.fields(typing.cast(Any, cls))}


def classes_in(hint: Any) -> Iterator[type]:
    """Yield the models and dataclasses in a type hint, also inside lists, unions and annotations."""
    if isinstance(hint, type) and (issubclass(hint, BaseModel) or dataclasses.is_dataclass(hint)):
        yield hint
    for inner in typing.get_args(hint):
        yield from classes_in(inner)
