"""The kinds of files that can be imported: one row each, in a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fsdpctl.errors import UsageError
from fsdpctl.importers import deepspeed, flat, training_arguments
from fsdpctl.importers.keys import deepspeed as deepspeed_keys
from fsdpctl.importers.keys import flat as flat_keys
from fsdpctl.importers.keys import training_arguments as training_arguments_keys
from fsdpctl.other_launchers.accelerate import config as accelerate
from fsdpctl.other_launchers.accelerate import keys as accelerate_keys
from fsdpctl.other_launchers.carry import Row, dotted
from fsdpctl.other_launchers.draft import Draft
from fsdpctl.schema.yaml_tree import YamlDocument


@dataclass(frozen=True)
class Kind:
    """One kind of YAML or JSON file."""

    title: str
    marks: tuple[str, ...]  # keys by which it is recognised: the kind with the most of them
    rows: tuple[Row, ...]
    read: Callable[[YamlDocument, Draft], None]


KINDS = {
    "accelerate": Kind(
        "an Accelerate configuration", accelerate_keys.MARKS, accelerate_keys.ROWS, accelerate.read_file
    ),
    "deepspeed": Kind("a DeepSpeed configuration", deepspeed_keys.MARKS, deepspeed_keys.ROWS, deepspeed.read),
    "training-arguments": Kind(
        "TrainingArguments of transformers",
        training_arguments_keys.MARKS,
        training_arguments_keys.ROWS,
        training_arguments.read,
    ),
    "flat": Kind("the YAML of an FSDP trainer", flat_keys.MARKS, flat_keys.ROWS, flat.read),
}
SCRIPT, FLAT = "script", "flat"
_FLAT_KEYS = {row.key for row in flat_keys.ROWS}


def detect(document: YamlDocument) -> str:
    """Return the kind that knows most keys of a file, of those with a mark in it. Raise UsageError if none has one."""
    names = [path for path in document.locations if path and isinstance(path[-1], str)]
    lasts = {str(path[-1]) for path in names}
    score = {
        name: len(
            {dotted(path) for path in names} & {row.key for row in kind.rows} if name != FLAT else lasts & _FLAT_KEYS
        )
        for name, kind in KINDS.items()
        if lasts & set(kind.marks)
    }
    if not score:
        known = ", ".join(kind.title for kind in KINDS.values())
        raise UsageError(
            f"{document.what}: no key of it is one by which a kind of file is known",
            hint=f"there are {known}, and shell scripts with torchrun; --kind names one",
        )
    return max(score, key=lambda name: score[name])


def title(kind: str) -> str:
    """Return what a kind is called in messages."""
    return KINDS[kind].title if kind in KINDS else "a shell script"
