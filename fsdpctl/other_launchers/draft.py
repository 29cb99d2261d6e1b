"""Keys of a job and a profile that were found in a command or a file of another launcher, and notes about the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fsdpctl.schema.problems import KeyPath, LocatedProblem, Location


class Program(StrEnum):
    """What the ranks of the new job run."""

    OWN = "own"
    """The script that the file was written for."""
    TRAINER = "trainer"
    """The bundled trainer."""


@dataclass(frozen=True)
class Note:
    """A key that does not carry over, or was decided here, and why."""

    location: Location
    key: str
    text: str
    must_change: bool = False  # the new job needs an edit before it can run

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.location), self.key, self.text) if part)


@dataclass
class Draft:
    """The keys that were found so far, each with the line that it is from."""

    source: str
    job: dict[str, Any] = field(default_factory=dict)  # all keys but `trainer`
    trainer: dict[str, Any] = field(default_factory=dict)
    makes_profile: bool = True  # a profile is made of what is found of a cluster
    is_whole: bool = False  # `trainer` has all that the bundled trainer needs
    profile: dict[str, Any] = field(default_factory=dict)
    job_locations: dict[KeyPath, Location] = field(default_factory=dict)
    trainer_locations: dict[KeyPath, Location] = field(default_factory=dict)
    profile_locations: dict[KeyPath, Location] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)  # by which the user's own script gets the same settings
    args: tuple[str, ...] = ()  # by which the user's own script reads the file itself
    notes: dict[Program, list[Note]] = field(default_factory=lambda: {program: [] for program in Program})
    problems: list[LocatedProblem] = field(default_factory=list)

    def set(self, key: str, value: Any, location: Location) -> None:
        """Set a key like `job.nodes`, `trainer.mesh.strategy` or `profile.backend.partition`."""
        root, *path = key.split(".")
        tree: dict[str, Any] = getattr(self, root)
        for part in path[:-1]:
            tree = tree.setdefault(part, {})
        tree[path[-1]] = value
        getattr(self, f"{root}_locations")[tuple(path)] = location

    def note(
        self,
        location: Location,
        key: str,
        text: str,
        *,
        must_change: bool = False,
        of: tuple[Program, ...] = tuple(Program),
    ) -> None:
        """Add what the user has to know, for jobs that run one of the programs `of`."""
        for program in of:
            self.notes[program].append(Note(location, key, text, must_change))

    def problem(self, location: Location, path: KeyPath, text: str) -> None:
        """Add what is wrong with the file itself."""
        self.problems.append(LocatedProblem(location, path, text))
