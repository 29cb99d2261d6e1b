"""The base of all specs: strict, frozen, unknown keys refused."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """Base of everything that is read from a user's file."""

    # defer_build: the shell's completion reads the keys and never checks a value.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
