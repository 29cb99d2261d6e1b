"""Carry the keys of a configuration over to a draft, by a table with one row for each key that is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fsdpctl.other_launchers.draft import Draft, Program
from fsdpctl.other_launchers.values import LeftOutError, Read, WrongError, same
from fsdpctl.schema.problems import MAX_SHOWN, KeyPath, Location, did_you_mean, key_path, shorten
from fsdpctl.schema.yaml_tree import YamlDocument

AUTO = "auto"
_VARIABLE = re.compile(r"\$(\w+|\{[^}]*\}|\()")
_NOTHING: tuple[Any, ...] = (None, False, "no", "none", "false", [], {}, "")


@dataclass(frozen=True)
class Row:
    """A key of another program: what has its meaning in a job, or why nothing has."""

    key: str  # dotted
    to: str = ""  # like `job.nodes` or `trainer.optim.lr`
    read: Read = same
    env: str = ""  # the variable by which the user's own script gets the value
    write_env: Callable[[Any], str | None] = (  # None: the variable is not set
        lambda given: str(given).lower() if isinstance(given, bool) else str(given)
    )
    why: str = ""  # why the bundled trainer, or a job of any program, has no such key
    absent: tuple[Any, ...] = ()  # values that mean the same as no key
    silent: tuple[Any, ...] = ()  # values that are as they always are in fsdpctl: no note
    decides: str = ""  # what `read` of the kind makes of it, with other keys: for the documentation
    is_section: bool = False  # a mapping whose keys are not looked at


def dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def carry(document: YamlDocument, rows: Sequence[Row], draft: Draft, name: Callable[[KeyPath], str] = dotted) -> None:
    """Set all keys of the document that the rows know, and note the others. `name`: of the row for a path."""
    known = {row.key: row for row in rows}
    sections = {row.key for row in rows if row.is_section}
    num_unknown = 0
    for path, value in leaves(document.tree, lambda path: name(path) in sections):
        row = known.get(name(path))
        location = document.locate(path)
        if row is None:
            if value not in _NOTHING:
                num_unknown += 1
                similar = did_you_mean(name(path), known) if num_unknown <= MAX_SHOWN else ""  # slow to find
                draft.note(location, key_path(path), f"not known here{similar}")
        elif value is not None and value not in row.absent:
            carry_value(row, path, value, location, draft)


def carry_value(row: Row, path: KeyPath, value: Any, location: Location, draft: Draft) -> None:
    """Set or note one key."""
    key = key_path(path)
    if isinstance(value, str) and (found := _VARIABLE.search(value)):
        text = f"{shorten(found[0])} is a shell variable, which no program fills in here: {_write_it(row)}"
        draft.note(location, key, text, must_change=bool(row.env))
        return
    if value == AUTO and AUTO not in row.silent:
        text = f'"auto" is decided by the other program at its start: {_write_it(row)}'
        draft.note(location, key, text, of=(Program.TRAINER,) if draft.args else tuple(Program))
        return
    try:
        mapped = row.read(value)
    except WrongError as error:
        draft.problem(location, path, str(error))
        return
    except LeftOutError as error:
        draft.note(location, key, str(error), of=(Program.TRAINER,))
    else:
        if row.to:
            draft.set(row.to, mapped, location)
    if row.env and (variable := row.write_env(value)) is not None:
        draft.env[row.env] = variable
    if row.why and value not in _NOTHING and value not in row.silent:
        draft.note(location, key, row.why, of=(Program.TRAINER,) if row.env or draft.args else tuple(Program))


def _write_it(row: Row) -> str:
    return f"write the value as {row.to.removeprefix('job.')}" if row.to else "write the value"


def leaves(tree: Any, is_known: Callable[[KeyPath], bool], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield path and value of everything that is no mapping, and of mappings whose own path is known."""
    for key, value in tree.items():
        inner = (*path, key)
        if isinstance(value, dict) and value and not is_known(inner):
            yield from leaves(value, is_known, inner)
        else:
            yield inner, value


def find(tree: Any, dotted: str) -> Any:
    """Return the value of a dotted key; None if it is not there."""
    for part in dotted.split("."):
        tree = tree.get(part) if isinstance(tree, Mapping) else None
    return tree


def path_of(dotted: str) -> KeyPath:
    return tuple(dotted.split("."))
