"""Take in a run's files on a host that shares no disk with the submitting one: say what is there, write what differs.

    python -c "$(cat intake.py)" < request

The request is one line of JSON, then the bytes of the files that it announces, one after the other; the answer is one
line of JSON. It is sent as text, because nothing of ours is on the host yet; so it imports nothing of ours.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

BLOCK = 1 << 20


def inventory(root: Path, tops: Iterable[str]) -> dict[str, str]:
    """What lies under these names below `root`: path -> mode and digest of a file, or the target of a link."""
    return {str(path.relative_to(root)): _identity(path) for top in tops for path in _files(root / top)}


def _files(top: Path) -> Iterator[Path]:
    if top.is_symlink() or top.is_file():
        yield top
        return
    for path in sorted(top.rglob("*")):
        if "__pycache__" not in path.parts and (path.is_symlink() or path.is_file()):
            yield path


def _identity(path: Path) -> str:
    if path.is_symlink():
        return f"-> {os.readlink(path)}"  # noqa: PTH115  as it is written
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(BLOCK):
            digest.update(block)
    return f"{path.stat().st_mode & 0o777:o} {digest.hexdigest()}"


def take(root: Path, files: list[list[Any]], remove: list[str], source: BinaryIO) -> None:
    """Write files, each whole or not at all, and links; remove what does not belong to the run any more."""
    for name in remove:
        (root / name).unlink()
    for name, mode, size, link in files:
        path = root / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.new")
        aside.unlink(missing_ok=True)
        if link is not None:
            aside.symlink_to(link)
        else:
            _write(aside, mode, size, source)
        aside.replace(path)


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
    root = Path(request["root"])
    try:
        take(root, request["files"], request["remove"], source)
        return {"found": inventory(root, request["tops"]), "problem": ""}
    except OSError as error:
        return {"found": {}, "problem": f"{error.strerror or error}: {error.filename or root}"}
    except EOFError as error:
        return {"found": {}, "problem": str(error)}


if __name__ == "__main__":
    print(json.dumps(main(sys.stdin.buffer)), flush=True)
