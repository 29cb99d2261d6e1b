"""Find the option, or the file and line, that a problem between a job and a profile comes from."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.contract.problems import Problem
from fsdpctl.launch.build import IncompatibleError
from fsdpctl.schema.problems import KeyPath
from fsdpctl.schema.yaml_tree import YamlDocument


def locate_problems(error: IncompatibleError, *documents: YamlDocument) -> IncompatibleError:
    """Return the error with a location before each problem: the option that caused it, else the file and line of its
    key in the first document that has it."""
    return IncompatibleError(error.subject, error.problems, [_locate(problem, documents) for problem in error.problems])


def _locate(problem: Problem, documents: Sequence[YamlDocument]) -> str:
    path, sources = _path(problem.key), [_path(key) for key in problem.follows_from]
    typed = [
        str(place)
        for document in documents
        for at, place in document.locations.items()
        if place.line is None and (at == path or any(at[: len(source)] == source for source in sources))
    ]
    written = [str(document.locations[path]) for document in documents if path in document.locations]
    return ", ".join(dict.fromkeys(typed)) or next(iter(written), "")


def _path(key: str) -> KeyPath:
    return tuple(key.split("."))
