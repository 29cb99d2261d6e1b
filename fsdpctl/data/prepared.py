"""Prepared data sets: list and verify them. Imports only the contract."""

from __future__ import annotations

import hashlib
import shlex
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.byte_progress import Report
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.files import open_file
from fsdpctl.contract.formats.dataset import (
    BYTES,
    END_BYTES,
    INDEX_NAME,
    TOKENIZER_NAME,
    Index,
    Shard,
    read_index,
)
from fsdpctl.errors import UsageError

BLOCK = 2**20


@dataclass(frozen=True)
class ListedDataset:
    """One data set; `index` is None if it cannot be read, and `broken` is the reason."""

    path: Path
    index: Index | None
    broken: str | None = None


def list_datasets(directory: Path) -> list[ListedDataset]:
    """Return the data sets in `directory`, itself included, by name; also unfinished and broken ones."""
    try:
        inner = sorted(path for path in directory.iterdir() if path.is_dir())
    except OSError as error:
        raise UsageError(f"{directory}: {error.strerror}") from None
    return [found for path in (directory, *inner) if (found := _look(path)) is not None]


def _look(path: Path) -> ListedDataset | None:
    if path.suffix == ".partial" and (path / "recipe.json").exists():
        return ListedDataset(path, None, "unfinished: run the same command again to continue")
    if not (path / INDEX_NAME).exists():
        return None
    try:
        return ListedDataset(path, read_index(path))
    except (CodecError, OSError) as error:
        return ListedDataset(path, None, str(error))


def open_index(directory: Path) -> Index:
    """Return the index of a prepared directory. Raise UsageError with the reason if there is none."""
    try:
        return read_index(directory)
    except CodecError as error:
        raise UsageError(str(error)) from None
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{directory} holds no prepared data: it has no {INDEX_NAME}",
            hint=f"fsdpctl data prepare TEXT... --out {shlex.quote(str(directory))}",
        ) from None
    except OSError as error:
        raise UsageError(f"{directory / INDEX_NAME}: {error.strerror}") from None


def find_wrong_sizes(directory: Path, index: Index) -> list[str]:
    """Return the files that ranks cannot read whole, one text for each. No content is read."""
    problems = []
    for file in (file for shard in index.train + index.val for file in shard.files(index.dtype)):
        path = directory / file.name
        try:
            size = path.stat().st_size
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
        else:
            problems += [_wrong_size(path, size, file.num_bytes)] if size != file.num_bytes else []
    return problems


def _wrong_size(path: Path, found: int, listed: int) -> str:
    return f"{path} has {found:,} bytes, its index lists {listed:,}"


def count_bytes(index: Index) -> int:
    """Return the number of bytes that `find_damage` reads."""
    return sum(file.num_bytes for shard in index.train + index.val for file in shard.files(index.dtype))


def find_damage(directory: Path, index: Index, report: Report) -> list[str]:
    """Read all files and return what differs from the index, one text per problem. `report` takes bytes read."""
    problems: list[str] = []
    for shard in index.train + index.val:
        for file in shard.files(index.dtype):
            problems += _check_file(directory / file.name, file.num_bytes, file.sha256, report)
        problems += _check_ends(directory / shard.ends_file, shard)
    if index.tokenizer != BYTES:
        path = directory / TOKENIZER_NAME
        problems += _check_file(path, None, index.tokenizer, report)
    return problems


def _check_file(path: Path, size: int | None, sha256: str, report: Report) -> list[str]:
    try:
        found = path.stat().st_size
        if size is not None and found != size:
            return [_wrong_size(path, found, size)]
        digest = hashlib.sha256()
        for block in _blocks(path):
            digest.update(block)
            report(len(block))
    except OSError as error:
        return [f"{path}: {error.strerror}"]
    return [] if digest.hexdigest() == sha256 else [f"{path} has changed: its sha256 is not the index's"]


def _blocks(path: Path) -> Iterator[bytes]:
    with open_file(path) as file:
        while block := file.read(BLOCK):
            yield block


def _check_ends(path: Path, shard: Shard) -> list[str]:
    """Check that the last document ends where the tokens end, which the digests of two files cannot show."""
    try:
        with path.open("rb") as file:
            file.seek(-END_BYTES, 2)
            (last,) = struct.unpack("<Q", file.read(END_BYTES))
    except (OSError, struct.error):
        return []  # already reported
    return [] if last == shard.tokens else [f"{path} ends at token {last:,}, its index lists {shard.tokens:,}"]
