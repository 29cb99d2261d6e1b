"""Data sets behind URLs: show and verify them. Imports no numpy: `submit` uses it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from fsdpctl.contract.byte_progress import Report
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.formats.dataset import BYTES, INDEX_NAME, TOKENIZER_NAME, Index, parse_index
from fsdpctl.data.prepared import BLOCK
from fsdpctl.errors import LaunchError, UsageError
from fsdpctl.remote_data.location import Location, RemoteDataError


@contextmanager
def remote_errors() -> Iterator[None]:
    """Turn failures of object storage into those of the command line."""
    try:
        yield
    except RemoteDataError as error:
        kind = UsageError if error.is_lasting else LaunchError
        raise kind(str(error.args[0]), hint=error.hint) from None


def open_remote_index(url: str) -> Index:
    """Return the index behind a URL. Raise UsageError with the reason if there is none, LaunchError if the server
    cannot be reached."""
    with remote_errors():
        text = Location(url).read(INDEX_NAME)
    try:
        return parse_index(text, f"{url}/{INDEX_NAME}")
    except CodecError as error:
        raise UsageError(str(error)) from None


def find_remote_damage(url: str, index: Index, report: Report) -> list[str]:
    """Read all files behind a URL and return what differs from the index, one text per problem."""
    files = [(file.name, file.sha256) for shard in index.train + index.val for file in shard.files(index.dtype)]
    if index.tokenizer != BYTES:
        files.append((TOKENIZER_NAME, index.tokenizer))
    location = Location(url)
    found = (_check(location, name, sha256, report) for name, sha256 in files)
    return [problem for problem in found if problem is not None]


def _check(location: Location, name: str, sha256: str, report: Report) -> str | None:
    digest = hashlib.sha256()
    try:
        for block in location.blocks(name, BLOCK):
            digest.update(block)
            report(len(block))
    except RemoteDataError as error:
        return str(error)
    same = digest.hexdigest() == sha256
    return None if same else f"{location.url}/{name} has changed: its sha256 is not the index's"
