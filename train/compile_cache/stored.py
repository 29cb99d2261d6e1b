"""The cache that is saved with a run: a line with its key, name and digest, and the archive.

The archive has pickles, which the compiler loads: only a file is read that no other user can have written.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.files import open_file, replace_file

_MAGIC = b"fsdpctl compile cache 1"


class Unusable(Exception):
    """The stored cache cannot be used; the text is the reason."""


@dataclass(frozen=True)
class Stored:
    """A cache that is saved with a run."""

    key: str
    name: str
    payload: bytes


def write_stored(path: Path, stored: Stored) -> None:
    """Replace the cache of a run. Raise OSError."""
    content = b"\n".join((_header(stored), stored.payload))
    replace_file(path, content, "new", durable=False)  # kills leave one temporary file at most


def read_stored(path: Path, key: str) -> Stored | None:
    """Return the cache of a run; None if there is none. Raise Unusable, also for one of another key."""
    try:
        with open_file(path) as file:
            if not all(is_private(status) for status in (os.fstat(file.fileno()), path.parent.stat())):
                raise Unusable("another user could have written it")
            header, _, payload = file.readall().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror}") from None
    words = header.decode(errors="replace").removeprefix(_MAGIC.decode()).split()
    if not header.startswith(_MAGIC) or len(words) != 3:
        raise Unusable("not a cache of this version")
    stored = Stored(words[0], words[1], payload)
    if header != _header(stored):
        raise Unusable("damaged: its digest differs")
    if stored.key != key:
        raise Unusable("made for other code, versions or cards, or for another configuration")
    return stored


def is_private(status: os.stat_result) -> bool:
    """Return whether no other user can write there."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _header(stored: Stored) -> bytes:
    named = f"{stored.key} {stored.name}".encode()
    digest = hashlib.sha256(named + stored.payload).hexdigest()
    return b" ".join((_MAGIC, named, digest.encode()))
