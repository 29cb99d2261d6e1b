"""An unfinished data set, `DIR.partial` beside its target: what a killed prepare leaves, and continues from.

recipe.json, tokenizer.json      of the data set
train-00000.bin ...              shards, under their final names; those without a record below are written again
pieces/00000.json, 00000.npy     PieceResult, written after the piece's shards were flushed to disk
index.json                       written when all pieces are done; then only the rename is missing
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fsdpctl.contract.codec import decode, read_json, write_json
from fsdpctl.contract.files import read_bytes, take_lock
from fsdpctl.contract.formats.dataset import INDEX_NAME, TOKENIZER_NAME, Index, Shard
from fsdpctl.data.piece import PieceResult
from fsdpctl.data.recipe import Recipe, differences
from fsdpctl.errors import BusyError, UsageError

RECIPE_NAME = "recipe.json"


@dataclass(frozen=True)
class _PieceRecord:
    number: int
    train: Shard | None
    val: Shard | None


class Partial:
    """The unfinished directory of one data set."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.root = target.with_name(f"{target.name}.partial")
        self._lock = self.root / "lock"
        self._pieces = self.root / "pieces"

    @property
    def tokenizer(self) -> Path:
        return self.root / TOKENIZER_NAME

    @property
    def is_complete(self) -> bool:
        return (self.root / INDEX_NAME).exists()

    @contextmanager
    def begin(self, recipe: Recipe) -> Iterator[None]:
        """Hold the lock of the directory, created or found with the same recipe.

        Raise UsageError if the recipe differs, BusyError if another command holds the lock.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        if (descriptor := take_lock(self._lock)) is None:
            raise BusyError(f"another command is preparing {self.target}")
        try:
            self._check_recipe(recipe)
            self._pieces.mkdir(exist_ok=True)
            yield
        finally:
            os.close(descriptor)

    def _check_recipe(self, recipe: Recipe) -> None:
        path = self.root / RECIPE_NAME
        begun = read_recipe(self.root)
        if begun is None:
            other = [name for name in os.listdir(self.root) if name != self._lock.name and not name.startswith(".")]
            if other:
                raise UsageError(f"{self.root} exists and is not an unfinished data set: it contains {other[0]}")
            write_json(path, recipe)
        elif changes := differences(begun, recipe):
            raise UsageError(
                f"{self.root} was begun with other options: {'; '.join(changes)}",
                hint=f"continue with the same options, or delete {self.root} to start over",
            )

    def save(self, result: PieceResult) -> None:
        """Record a piece whose shards are on disk."""
        np.save(self._pieces / f"{result.number:05d}.npy", result.counts)
        write_json(self._record(result.number), _PieceRecord(result.number, result.train, result.val))

    def load(self, number: int) -> PieceResult | None:
        """Return the result of a piece; None if it is not done."""
        try:
            record = read_json(_PieceRecord, self._record(number))
            counts = np.load(self._pieces / f"{number:05d}.npy")
        except (OSError, ValueError):
            return None
        return PieceResult(number, record.train, record.val, counts)

    def _record(self, number: int) -> Path:
        return self._pieces / f"{number:05d}.json"

    def complete(self, index: Index) -> None:
        write_json(self.root / INDEX_NAME, index)

    def publish(self) -> None:
        """Remove everything but the data set, and rename it to its target."""
        shutil.rmtree(self._pieces)
        for path in self.root.iterdir():
            if path == self._lock or path.name.startswith("."):
                path.unlink()
        self.root.rename(self.target)

    def discard(self) -> None:
        shutil.rmtree(self.root)


def read_recipe(directory: Path) -> Recipe | None:
    """Return the recipe of a data set, finished or not; None if there is none. Raise UsageError if it is broken."""
    path = directory / RECIPE_NAME
    try:
        return parse_recipe(read_bytes(path), str(path))
    except FileNotFoundError:
        return None


def parse_recipe(text: bytes, name: str) -> Recipe:
    """Return the recipe in `text`. Raise UsageError, with the name of the file, if it is broken."""
    try:
        return decode(Recipe, json.loads(text.decode()))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: {error}") from None
