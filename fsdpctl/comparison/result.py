"""What `compare` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Difference:
    """A value that two runs have; null where one has none."""

    key: str
    a: Any
    b: Any


@dataclass(frozen=True)
class ChangedFile:
    """A file of the code that ranks ran."""

    path: str  # below `code/` of the run directory
    change: Literal["added", "removed", "changed"]  # from the first run to the second


@dataclass(frozen=True)
class LossAt:
    """The loss of two runs at the same step."""

    step: int
    a: float
    b: float


@dataclass(frozen=True)
class Comparison:
    """Two runs. What is equal is left out, except for the results."""

    a: str  # run ids
    b: str
    configuration: tuple[Difference, ...]  # keys of the job, with `trainer.`, and of the profile, with `profile.`
    code: tuple[ChangedFile, ...]
    versions: tuple[Difference, ...]  # commits of the project, fsdpctl and torch
    hosts: Difference | None
    results: tuple[Difference, ...]
    loss: tuple[LossAt, ...]  # at steps that both have
