"""The base of all specs: strict, frozen, unknown keys refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, ConfigDict

_NO_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


class Spec(BaseModel):
    """Base of everything that is read from a user's file."""

    # defer_build: the shell's completion reads the keys and never checks a value.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    @classmethod
    def model_rebuild(cls, **options: Any) -> bool | None:
        """Build what checks values. Plugins of pydantic, which any installed package may bring, never see ours."""
        with _without_plugins():
            return super().model_rebuild(**options)


@contextmanager
def _without_plugins() -> Iterator[None]:
    """Pydantic knows this variable only. It is gone again at once: ranks inherit this process's environment."""
    before = os.environ.get(_NO_PLUGINS)
    os.environ[_NO_PLUGINS] = "__all__"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_PLUGINS]
        else:
            os.environ[_NO_PLUGINS] = before
