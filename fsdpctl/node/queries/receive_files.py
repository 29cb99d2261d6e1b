"""Receive files on a host that shares no disk with the submitting machine, and report which are still missing.

    python -c "$(cat receive_files.py)" < request

The request is one line of JSON, then the bytes of the listed files, one after the other; the answer is one line of
JSON. The program is sent as text, because fsdpctl is not on the host yet; so it imports nothing of fsdpctl.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, BinaryIO

Copied = Mapping[str, Sequence[str]]
"""Of files beside which ranks write their own: name -> the identities that copies have brought so far."""
NONE: Copied = MappingProxyType({})

BLOCK = 1 << 20
_SIZE = "size "


def inventory(root: Path, tops: Iterable[str]) -> dict[str, str]:
    """Return path -> identity of the files below these names in `root`."""
    return {str(path.relative_to(root)): _identity(path) for path in _files(root, tops)}


def size_of(path: Path) -> str:
    """Return an identity by size, for a file that is too large to be read each time."""
    return f"{_SIZE}{path.stat().st_size}"


def is_size(identity: str) -> bool:
    return identity.startswith(_SIZE)


def find_missing(root: Path, wanted: Mapping[str, str], copied: Copied = NONE) -> list[str]:
    """Return the names in `wanted` whose file is missing or has another identity, without those of `find_kept`."""
    return [name for name in _differing(root, wanted) if not _is_of_ranks(root, name, copied)]


def find_kept(root: Path, wanted: Mapping[str, str], copied: Copied) -> list[str]:
    """Return the names in `wanted` whose file is another one, which no copy has brought: a rank wrote it."""
    return [name for name in _differing(root, wanted) if _is_of_ranks(root, name, copied)]


def find_extra(root: Path, tops: Iterable[str], wanted: Mapping[str, str], copied: Copied = NONE) -> list[str]:
    """Return names that are not in `wanted`: all files below `tops`, and of those in `copied` what a copy brought."""
    below = [name for path in _files(root, tops) if (name := str(path.relative_to(root))) not in wanted]
    return [*below, *(name for name in copied if name not in wanted and _is_of_a_copy(root / name, copied[name]))]


def _differing(root: Path, wanted: Mapping[str, str]) -> list[str]:
    return [name for name, identity in wanted.items() if not _is(root / name, identity)]


def _is_of_ranks(root: Path, name: str, copied: Copied) -> bool:
    """Return whether what is in the way of this file was not brought by a copy; False if no rank writes there."""
    if name not in copied:
        return False
    path = root / name
    for part in (*reversed(PurePath(name).parents[:-1]), PurePath(name)):
        path = root / part
        if _is_file(path):
            return _identity(path) not in copied.get(str(part), ())
    below = (str(file.relative_to(root)) for file in _files(root, [name]))
    return any(_identity(root / file) not in copied.get(file, ()) for file in below)


def _is_of_a_copy(path: Path, brought: Sequence[str]) -> bool:
    return _is_file(path) and _identity(path) in brought


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _files(root: Path, tops: Iterable[str]) -> Iterator[Path]:
    for top in tops:
        for path in [root / top, *sorted((root / top).rglob("*"))]:
            if "__pycache__" not in path.parts and _is_file(path):
                yield path


def _is(path: Path, identity: str) -> bool:
    if not _is_file(path):
        return False
    return identity == (size_of(path) if is_size(identity) else _identity(path))


def _identity(path: Path) -> str:
    """Return the owner's mode and the digest of a file, or the target of a link."""
    if path.is_symlink():
        return f"-> {os.readlink(path)}"  # noqa: PTH115  Path.readlink would normalize it
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(BLOCK):
            digest.update(block)
    return f"{path.stat().st_mode & 0o700:o} {digest.hexdigest()}"


def receive(root: Path, files: list[list[Any]], remove: list[str], source: BinaryIO) -> None:
    """Write `files`, each [name, mode, size, link target] and atomically; remove the names in `remove`."""
    for name in remove:
        remove_file(root, name)
    for name, mode, size, link in files:
        path = root / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)
        if link is not None:
            temporary.symlink_to(link)
        else:
            _write(temporary, mode, size, source)
        put(temporary, path)


def put(file: Path, path: Path) -> None:
    """Rename a file to `path`. A directory in its way has nothing of ranks, or `find_missing` would not name it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    file.replace(path)


def remove_file(root: Path, name: str) -> None:
    """Remove a file, its byte code, and the directories below `root` that are empty then."""
    path = root / name
    path.unlink()
    cache = path.parent / "__pycache__"
    for compiled in cache.glob(f"{glob.escape(path.stem)}.*.pyc") if path.suffix == ".py" else ():
        compiled.unlink()
    for directory in (cache, *path.parents):
        if directory == root:
            return
        with suppress(OSError):  # not empty, or not there
            directory.rmdir()


def _write(path: Path, mode: int, size: int, source: BinaryIO) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        while size:
            block = source.read(min(size, BLOCK))
            if not block:
                raise EOFError("the connection ended within a file")
            file.write(block)
            size -= len(block)


def main(source: BinaryIO) -> dict[str, Any]:
    os.umask(0o077)
    request = json.loads(source.readline())
    root, wanted, copied = Path(request["root"]), request["wanted"], request["copied"]
    try:
        receive(root, request["files"], request["remove"], source)
        return {
            "missing": find_missing(root, wanted, copied),
            "extra": find_extra(root, request["tops"], wanted, copied),
            "kept": find_kept(root, wanted, copied),
        }
    except OSError as error:
        return {"problem": f"{error.strerror or error}: {error.filename or root}"}
    except EOFError as error:
        return {"problem": str(error)}


if __name__ == "__main__":
    print(json.dumps(main(sys.stdin.buffer)), flush=True)
