"""Receive files on a host that shares no disk with the submitting machine, and report which are still missing.

    python -c "$(cat receive_files.py)" < request

The request is one line of JSON, then the bytes of the listed files, one after the other; the answer is one line of
JSON. The program is sent as text, because fsdpctl is not on the host yet; so it imports nothing of fsdpctl.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

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


def find_missing(root: Path, wanted: dict[str, str]) -> list[str]:
    """Return the names in `wanted` whose file is missing or has another identity."""
    return [name for name, identity in wanted.items() if not _is(root / name, identity)]


def find_extra(root: Path, tops: Iterable[str], wanted: dict[str, str]) -> list[str]:
    """Return the names of files below `tops` that are not in `wanted`."""
    return [name for path in _files(root, tops) if (name := str(path.relative_to(root))) not in wanted]


def _files(root: Path, tops: Iterable[str]) -> Iterator[Path]:
    for top in tops:
        for path in [root / top, *sorted((root / top).rglob("*"))]:
            if "__pycache__" not in path.parts and (path.is_symlink() or path.is_file()):
                yield path


def _is(path: Path, identity: str) -> bool:
    if not (path.is_symlink() or path.is_file()):
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
        (root / name).unlink()
    for name, mode, size, link in files:
        path = root / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)
        if link is not None:
            temporary.symlink_to(link)
        else:
            _write(temporary, mode, size, source)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        temporary.replace(path)


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
    root, tops, wanted = Path(request["root"]), request["tops"], request["wanted"]
    try:
        receive(root, request["files"], request["remove"], source)
        return {"missing": find_missing(root, wanted), "extra": find_extra(root, tops, wanted), "problem": ""}
    except OSError as error:
        return {"missing": [], "extra": [], "problem": f"{error.strerror or error}: {error.filename or root}"}
    except EOFError as error:
        return {"missing": [], "extra": [], "problem": str(error)}


if __name__ == "__main__":
    print(json.dumps(main(sys.stdin.buffer)), flush=True)
