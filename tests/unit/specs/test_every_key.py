"""Every key of a job and a profile, each with every kind of wrong value: accepted, or explained in plain words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from fsdpctl.errors import UsageError
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import load_job, load_profile, parse_job, parse_profile

VALUES = [None, True, -1, 0, 1.5, 10**17, 1e300, "", "x", "-x", "a b", "a\nb", "1e-4", [], [1], ["a"], {}, {"a": 1}]


def full_specs() -> Iterator[tuple[Callable[..., Any], dict[str, Any]]]:
    job = load_job("llm300m", ["env.A=x", "procs_per_node=2"]).model_dump(mode="json")
    script = JobSpec.model_validate_json('{"name": "x", "entrypoint": {"script": "a.py"}, "args": ["a"]}')
    yield parse_job, job
    yield parse_job, script.model_dump(mode="json", exclude_none=True)
    for name in ("local", "slurm-h100", "ssh-h100"):
        profile = load_profile(name).model_dump(mode="json")
        yield parse_profile, {**profile, "pass_env": ["A"], "setup": ["true"], "env": {"A": "x"}}


def paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from paths(value, (*path, key))


def mutants(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    text = json.dumps(tree)
    for path in paths(tree):
        for change in (*VALUES, "unknown", "missing"):
            mutant = json.loads(text)
            inner: Any = mutant
            for key in path[:-1]:
                inner = inner[key]
            if change == "missing":
                del inner[path[-1]]
            elif change == "unknown" and isinstance(inner, dict):
                inner[f"{path[-1]}x"] = inner.pop(path[-1])
            else:
                inner[path[-1]] = change
            yield mutant


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("index", range(5))
def test_wrong_values_are_explained_without_terms_of_libraries(index: int, part: int) -> None:
    parse, tree = list(full_specs())[index]
    explained = 0
    for mutant in islice(mutants(tree), part, None, 2):
        try:
            parse(json.dumps(mutant, indent=1), "file.yaml")  # JSON is YAML
        except UsageError as error:
            explained += 1
            for problem in error.message.splitlines()[1:]:
                assert re.match(r"file\.yaml:\d+: \S", problem)
                assert not re.search(
                    r"Input|pydantic|valid |tuple|dict|None|Traceback|\{|\bint\b|\bstr\b", _without_code(problem)
                ), problem
    assert explained > len(list(paths(tree))) / 2


def _without_code(problem: str) -> str:
    """Return a message without what it shows to write."""
    return re.sub(r"`[^`]*`", "", problem)
