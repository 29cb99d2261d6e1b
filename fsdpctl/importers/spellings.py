"""Names of flat files that mean one key: those of one section must agree, and one of them counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from fsdpctl.importers.keys.flat import ACCUMULATION, MICRO, NODES, PROCS, ROWS, TOTAL, row_name
from fsdpctl.other_launchers.carry import AUTO, dotted, leaves
from fsdpctl.other_launchers.draft import Draft, Program
from fsdpctl.other_launchers.values import LeftOutError, WrongError
from fsdpctl.other_launchers.world import count
from fsdpctl.schema.problems import KeyPath, show
from fsdpctl.schema.yaml_tree import YamlDocument

PER_RANK_OR_ALL = "batch_size"
"""The name that some programs have for the sequences of a rank, and others for those of all ranks."""
_LOOSE = ("trainer.precision", "trainer.model.seq_len", "trainer.mesh.strategy")
"""Keys for which a file may well have two values: `dtype` of weights beside `mixed_precision`."""
_GROUPS = {name: names[0] for names in (TOTAL, MICRO, ACCUMULATION, NODES, PROCS) for name in names}
_ROW_OF = {row.key: row for row in ROWS}

Spelling = tuple[KeyPath, Any]


def paths_named(document: YamlDocument, name: str) -> Iterator[KeyPath]:
    """Yield the keys of this name, in any section."""
    for path in document.locations:
        if path and str(path[-1]).lower() == name and all(isinstance(part, str) for part in path):
            yield path


def key_of(document: YamlDocument, names: Sequence[str]) -> str:
    """Return the dotted key of the first of these names that the file has; the name itself where it has none."""
    return next((dotted(path) for name in names for path in paths_named(document, name)), names[0])


def batch_names(document: YamlDocument) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of the global batch and of the micro-batch: `batch_size` beside a smaller one is global."""
    given = {name: count(document, key_of(document, (name,))) for name in (*TOTAL, *MICRO)}
    others = [given[name] for name in MICRO if name != PER_RANK_OR_ALL and given[name]]
    size = given[PER_RANK_OR_ALL]
    if size and others and size not in others and not any(given[name] for name in TOTAL if given[name] != size):
        return (*TOTAL, PER_RANK_OR_ALL), [name for name in MICRO if name != PER_RANK_OR_ALL]
    return TOTAL, MICRO


def check_spellings(document: YamlDocument, draft: Draft) -> None:
    """Report names of one section that give one key different values, and note what does not count elsewhere."""
    totals, _ = batch_names(document)
    found: dict[str, list[Spelling]] = defaultdict(list)
    for path, value in leaves(document.tree, lambda path: False):
        last = row_name(path)
        if (row := _ROW_OF.get(last)) is None or value in (None, AUTO):
            continue
        try:
            mapped = row.read(value)
        except (WrongError, LeftOutError):  # reported already
            continue
        group = totals[0] if last in totals else row.to or _GROUPS.get(last)
        if group:
            found[group].append((path, mapped))
    for group, spellings in found.items():
        _compare(document, draft, group, spellings)


def _compare(document: YamlDocument, draft: Draft, group: str, spellings: Sequence[Spelling]) -> None:
    (first, value), *others = spellings
    for path, other in others:
        if other == value:
            continue
        location, text = document.locate(path), f"{show(other)}, but {dotted(first)} is {show(value)}"
        if path[:-1] == first[:-1] and group not in _LOOSE:
            draft.problem(location, path, f"{text}; keep one of them")
        else:
            text += ", which means the same here: only one of them is taken"
            draft.note(location, dotted(path), text, of=(Program.TRAINER,))
