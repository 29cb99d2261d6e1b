"""docs/licences.md: the licence of every package that an installation brings, from the metadata of what is installed.

Only packages that constraints.txt pins: what torch's wheels for CUDA need in addition differs between indexes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from docs.tables import FOOT, row

ROOT = Path(__file__).parents[1]
FOR_DEVELOPERS = ("site", "test", "check")
"""Extras that are not listed. A package is listed where it comes first, in the order of pyproject.toml."""

INTRO = """\
# Licences

fsdpctl has the MIT licence ([LICENSE](../LICENSE)). These packages are installed beside it, here at the versions of
[constraints.txt](../constraints.txt), each with the licence that its metadata names. The first table is what every
installation has, each further one what an extra adds.

Not in the tables: setuptools (MIT), and what torch's wheels for CUDA bring in addition, NVIDIA's libraries (`nvidia-*`,
under NVIDIA's own licences) and triton (MIT).
"""


def render() -> str:
    seen: set[str] = set()
    tables = [("Always", project()["dependencies"])]
    extras = project()["optional-dependencies"].items()
    tables += [(f"Extra `{name}`", lines) for name, lines in extras if name not in FOR_DEVELOPERS]
    sections = [section(title, closure(map(Requirement, lines)), seen) for title, lines in tables]
    return "\n\n".join(part.strip() for part in (INTRO, *sections, FOOT) if part) + "\n"


def project() -> dict[str, Any]:
    """Return the part `project` of pyproject.toml."""
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def section(title: str, names: Iterable[str], seen: set[str]) -> str:
    """Return the table of the packages that no table before has, or nothing."""
    new = sorted(set(names) - seen)
    seen.update(new)
    rows = [row(f"[{name}](https://pypi.org/project/{name}/)", pins()[name], licence(name)) for name in new]
    head = [f"## {title}", "", "| package | version | licence |", "| --- | --- | --- |"]
    return "\n".join([*head, *rows]) if rows else ""


def closure(requirements: Iterable[Requirement]) -> set[str]:
    """Return the names of pinned packages that these need, and those that they need in turn."""
    found: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(one, frozenset({""})) for one in requirements]
    while waiting:
        one, extras = waiting.pop()
        name = canonicalize_name(one.name)
        wanted = frozenset({"", *one.extras})
        if name not in pins() or not applies(one, extras) or (name, wanted) in seen:
            continue
        found.add(name)
        seen.add((name, wanted))
        waiting += [(Requirement(line), wanted) for line in metadata.requires(name) or []]
    return found


def applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def pins() -> dict[str, str]:
    """Return the versions of constraints.txt by canonical name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def licence(name: str) -> str:
    """Return what the metadata of a package names, the most exact field first."""
    found = metadata.metadata(name)
    if expression := found.get("License-Expression"):
        return expression
    classifiers = [line for line in found.get_all("Classifier") or [] if line.startswith("License :: OSI Approved :: ")]
    if classifiers:
        return ", ".join(line.rpartition(" :: ")[2] for line in classifiers)
    first = (found.get("License") or "").strip().splitlines()[:1]
    return first[0] if first else "not named"
