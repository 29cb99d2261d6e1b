"""The base class of all specs: strict, frozen, unknown keys refused."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

_NO_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


class Spec(BaseModel):
    """Base class of everything that is read from a user's file."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {}
    """Of a whole file: keys of other programs -> what has their meaning here."""

    # defer_build: shell completion reads the keys and never validates a value.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    @classmethod
    def model_rebuild(cls, **options: Any) -> bool | None:
        """Build the validators, without pydantic plugins, which any installed package may register."""
        with _without_plugins():
            return super().model_rebuild(**options)


@contextmanager
def _without_plugins() -> Iterator[None]:
    """Set the variable that disables plugins, and restore it at once: ranks inherit this process's environment."""
    before = os.environ.get(_NO_PLUGINS)
    os.environ[_NO_PLUGINS] = "__all__"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_PLUGINS]
        else:
            os.environ[_NO_PLUGINS] = before
