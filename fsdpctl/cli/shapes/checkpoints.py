"""Checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ListedCheckpoint:
    """One checkpoint."""

    name: str
    path: str
    step: int | None
    bytes: int | None
    time: float | None  # seconds since the epoch
    world: int | None  # ranks that wrote it
    mesh: tuple[int, ...] | None  # replicate, shard
    broken: str | None  # why it cannot be used
    copies: Mapping[str, str]  # without a shared disk: host and what is wrong with its copy, or nothing


@dataclass(frozen=True)
class Verified:
    """One checkpoint whose bytes were read."""

    name: str
    ok: bool
    hosts: tuple[str, ...]  # with a whole copy, without a shared disk
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Pruned:
    """The checkpoints that were removed, and those that were left: damaged ones, and older ones that are needed."""

    removed: tuple[str, ...]
    broken: tuple[str, ...]
    needed: Mapping[str, str]  # name and why: a command reads it, or another run begins with it


@dataclass(frozen=True)
class Exported:
    """A model that was exported."""

    path: str
    step: int
