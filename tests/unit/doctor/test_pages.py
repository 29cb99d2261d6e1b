"""The pages about doctor and networks agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fsdpctl.commands import debug_env
from fsdpctl.contract.findings import Check, Result
from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.plan import Debug

DOCS = Path(__file__).parents[3] / "docs"
NODE = NodePaths(Path("/runs/r/attempts/1/node-0"))


def table(page: str, heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading."""
    text = (DOCS / page).read_text().split(f"## {heading}\n")[1].strip()
    block = next(part for part in text.split("\n\n") if part.startswith("| "))
    return [[cell.strip().strip("`") for cell in row.split("|")[1:-1]] for row in block.splitlines()[2:]]


def test_every_check_is_explained_in_the_order_of_the_table() -> None:
    assert [row[0] for row in table("doctor.md", "The checks")] == list(Check)
    text = (DOCS / "doctor.md").read_text()
    assert all(f"| `{result}` |" in text for result in Result)


def test_what_is_always_set_is_explained() -> None:
    rows = table("networks.md", "What is always set")
    found = debug_env.always("cuda", NODE)
    assert {row[0] for row in rows} == set(found)
    for name, value, _ in rows:
        assert found[name].removeprefix(f"{NODE.root}/") == re.split("`", value)[0]


@pytest.mark.parametrize("level", ["info", "trace"])
def test_every_level_is_explained(level: Debug) -> None:
    rows = table("networks.md", "Debug levels")
    described = {name: value for at, name, value, _ in rows if at in ("info", level)}
    for name, value in debug_env.on_demand(level, "cuda", NODE).items():
        assert described.pop(name) == value.removeprefix(f"{NODE.root}/")
    assert not described
