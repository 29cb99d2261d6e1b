"""The runs of a sweep: one for each combination of values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

MAX_RUNS = 256
MAX_NAME = 56
"""Characters: the id of a run adds five."""


@dataclass(frozen=True)
class Point:
    """One combination."""

    name: str  # of the job of its run
    values: Mapping[str, str]  # of the keys that vary, as they were written


@dataclass(frozen=True)
class Grid:
    """The keys that vary with their values, and the overrides that are the same for all runs."""

    varied: Mapping[str, tuple[str, ...]]
    common: tuple[str, ...]

    @property
    def num_runs(self) -> int:
        count = 1
        for values in self.varied.values():
            count *= len(values)
        return count


def read_grid(overrides: Sequence[str]) -> Grid:
    """Split `KEY=A,B,C` at its commas, but not inside of brackets and quotes. Raise ValueError."""
    varied: dict[str, tuple[str, ...]] = {}
    common = []
    for override in overrides:
        key, _, text = override.partition("=")
        values = tuple(split_values(text))
        if len(values) == 1:
            common.append(override)
            continue
        if "" in values:
            raise ValueError(f"{override}: a value is empty")
        if repeated := [value for value in values if values.count(value) > 1]:
            raise ValueError(f"{override}: {repeated[0]} is given twice")
        if key in varied:
            raise ValueError(f"{key} is given twice: write all of its values in one --set")
        varied[key] = values
    grid = Grid(varied, tuple(common))
    if not varied:
        raise ValueError("nothing varies: a key needs several values, like trainer.optim.lr=1e-4,3e-4")
    if grid.num_runs > MAX_RUNS:
        raise ValueError(f"these are {grid.num_runs:,} runs; a sweep has at most {MAX_RUNS}")
    return grid


def split_values(text: str) -> Iterator[str]:
    """Yield the parts between commas that are in no brackets and no quotes."""
    start, depth, quote = 0, 0, ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def make_points(job: str, grid: Grid) -> list[Point]:
    """Return all combinations; the last key varies first. `job`: its name, with which the names of all runs begin."""
    points: list[Point] = []
    names: set[str] = set()
    for chosen in product(*grid.varied.values()):
        values = dict(zip(grid.varied, chosen, strict=True))
        name = _unique(_name(job, values), names)
        names.add(name)
        points.append(Point(name, values))
    return points


def overrides_of(point: Point, grid: Grid) -> list[str]:
    """Return what `submit --set` would be given."""
    return [*grid.common, *(f"{key}={value}" for key, value in point.values.items()), f"--name={point.name}"]


def _name(job: str, values: Mapping[str, Any]) -> str:
    parts = [f"{key.rpartition('.')[2]}{value}" for key, value in values.items()]
    return re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join([job, *parts]))[:MAX_NAME].strip("-._")


def _unique(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name[: MAX_NAME - 4]}-{number}"
    return found
