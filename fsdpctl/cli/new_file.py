"""Write files as a whole: new ones never over another one, and results in place of older ones."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from fsdpctl.errors import UsageError


def create_files(texts: dict[Path, str]) -> None:
    """Create all files or none. Raise UsageError where one exists or cannot be written."""
    if existing := [path for path in texts if os.path.lexists(path)]:
        raise UsageError(f"{existing[0]} exists", hint="edit it, or choose another name")
    created: list[Path] = []
    try:
        for path, text in texts.items():
            _create(path, text)
            created.append(path)
    except OSError as error:
        for done in created:
            done.unlink()
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _create(path: Path, text: str) -> None:
    """Create one file: a temporary one is linked, so that no reader sees a part of it."""
    import tempfile  # brings random, bz2 and lzma, to every --help

    path.parent.mkdir(exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.link(temporary, path)
    finally:
        Path(temporary).unlink()


def replace_file(path: Path, write: Callable[[Path], object], option: str = "--out") -> None:
    """Let `write` make a file, and put it in the place of `path`, which stays as it is where that fails.

    Raise UsageError; its hint names the `option` of the file.
    """
    import tempfile

    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):  # such as /dev/stdout
            write(path)
            return
        descriptor, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
        os.close(descriptor)
        try:
            write(Path(name))
            Path(name).chmod(stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600)
            Path(name).replace(path.resolve())
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint=f"{option} names a file") from None
