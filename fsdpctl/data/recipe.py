"""Everything that determines the tokens of a data set, as a value: the same recipe gives the same bytes."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fsdpctl.contract.formats.dataset import BYTES, FORMAT


@dataclass(frozen=True)
class InputFile:
    """An input file; another size or time means other content."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Recipe:
    """The inputs, and how they are read."""

    tokenizer: str = BYTES  # or the sha256 of a tokenizer.json, or "trained" with `train_bpe`
    train_bpe: int | None = None  # vocabulary size of a tokenizer that is trained on the input
    end_token: str | None = None  # None: the first of the usual ones in the vocabulary
    text_key: str = "text"  # of JSON lines; the column of Parquet
    split_on: str | None = None  # the line between documents of a text file; None: one document per file
    val_fraction: float = 0.02  # of documents, chosen by hash
    inputs: tuple[InputFile, ...] = ()
    chat: str | None = None  # sha256 of the chat template, where documents are conversations
    format: int = FORMAT

    @property
    def num_bytes(self) -> int:
        return sum(file.size for file in self.inputs)


def differences(old: Recipe, new: Recipe) -> list[str]:
    """Return the differences, one text per changed field."""
    found = []
    for name in (field.name for field in fields(Recipe)):
        before, after = getattr(old, name), getattr(new, name)
        if name == "inputs" and before != after:
            found += _changed_inputs(before, after)
        elif name == "chat" and before and after and before != after:
            found.append("the chat template is another one")
        elif before != after:
            found.append(f"{name} was {before!r}, now {after!r}")
    return found


def _changed_inputs(before: tuple[InputFile, ...], after: tuple[InputFile, ...]) -> list[str]:
    old, new = {file.path: file for file in before}, {file.path: file for file in after}
    gone = [f"input {path} is gone" for path in old if path not in new]
    added = [f"input {path} is new" for path in new if path not in old]
    changed = [f"input {path} has changed" for path in old if path in new and old[path] != new[path]]
    found = gone + added + changed
    if len(found) > 4:
        return [*found[:3], f"and {len(found) - 3} more"]
    return found or ["the inputs are in another order"]
