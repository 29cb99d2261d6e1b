"""The kinds of files that can be imported: one row each, in a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fsdpctl.errors import UsageError
from fsdpctl.importers import accelerate, deepspeed, flat, training_arguments
from fsdpctl.importers.carry import Row
from fsdpctl.importers.imported import Draft
from fsdpctl.schema.yaml_tree import YamlDocument


@dataclass(frozen=True)
class Kind:
    """One kind of YAML or JSON file."""

    title: str
    marks: tuple[str, ...]  # keys by which it is recognised: the kind with the most of them
    rows: tuple[Row, ...]
    read: Callable[[YamlDocument, Draft], None]


KINDS = {
    "accelerate": Kind("an Accelerate configuration", accelerate.MARKS, accelerate.ROWS, accelerate.read),
    "deepspeed": Kind("a DeepSpeed configuration", deepspeed.MARKS, deepspeed.ROWS, deepspeed.read),
    "training-arguments": Kind(
        "TrainingArguments of transformers",
        training_arguments.MARKS,
        training_arguments.ROWS,
        training_arguments.read,
    ),
    "flat": Kind("the YAML of an FSDP trainer", flat.MARKS, flat.ROWS, flat.read),
}
SCRIPT = "script"


def detect(document: YamlDocument) -> str:
    """Return the kind of a file from its keys. Raise UsageError where no kind has one of them."""
    found = {name: sum(mark in document.tree for mark in kind.marks) for name, kind in KINDS.items()}
    best = max(found, key=lambda name: found[name])
    if not found[best]:
        known = ", ".join(kind.title for kind in KINDS.values())
        raise UsageError(
            f"{document.what}: no key of it is one by which a kind of file is known",
            hint=f"there are {known}, and shell scripts with torchrun; --kind names one",
        )
    return best


def title(kind: str) -> str:
    """Return what a kind is called in messages."""
    return KINDS[kind].title if kind in KINDS else "a shell script with torchrun"
