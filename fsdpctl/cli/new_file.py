"""Create a file with its whole content, and never over another one."""

from __future__ import annotations

import os
import tempfile
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
        for path in created:
            path.unlink()
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _create(path: Path, text: str) -> None:
    """Create one file: a temporary one is linked, so that no reader sees a part of it."""
    path.parent.mkdir(exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.link(temporary, path)
    finally:
        Path(temporary).unlink()
