"""Every key that a user may write in a spec, read off the models: for messages, completion and documentation."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True)
class Key:
    """One key: where it stands in the tree, and the class and the hint that describe it."""

    owner: type
    path: tuple[str, ...]
    hint: Any

    @property
    def dotted(self) -> str:
        return ".".join(self.path)

    @property
    def has_keys(self) -> bool:
        """Whether further keys, known ones, stand below."""
        return any(True for _ in classes_in(self.hint))

    @property
    def is_mapping(self) -> bool:
        """Whether the user chooses the keys below."""
        return typing.get_origin(self.hint) is dict


def walk(cls: type, path: tuple[str, ...] = ()) -> Iterator[Key]:
    """All keys below a model or dataclass, each followed by those inside of it."""
    for name, hint in hints_of(cls).items():
        yield Key(cls, (*path, name), hint)
        for inner in classes_in(hint):
            yield from walk(inner, (*path, name))


def hints_of(cls: type) -> dict[str, Any]:
    """The fields of a model or dataclass, with whatever `Annotated` says about them."""
    hints = typing.get_type_hints(cls, include_extras=True)
    if issubclass(cls, BaseModel):
        return {name: hints[name] for name in cls.model_fields}
    return {field.name: hints[field.name] for field in dataclasses.fields(typing.cast(Any, cls))}


def classes_in(hint: Any) -> Iterator[type]:
    """The models and dataclasses in a hint, whatever list, optional or annotation is around them."""
    if isinstance(hint, type) and (issubclass(hint, BaseModel) or dataclasses.is_dataclass(hint)):
        yield hint
    for inner in typing.get_args(hint):
        yield from classes_in(inner)
