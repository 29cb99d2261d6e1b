"""The stop and abort files: one word and a reason, created once, by whoever is first."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fsdpctl.contract import AbortReason, StopReason
from fsdpctl.contract.files import FULL_DISK, read_bytes


@dataclass(frozen=True)
class ControlFile:
    """What one of these files says; a hand, or a person's command on a full disk, may have left it empty."""

    word: str
    reason: str

    @property
    def is_users_stop(self) -> bool:
        """Of a stop file, whether a person wants the run to stop: one that says nothing is a person's."""
        return self.word in (StopReason.USER, "")

    @property
    def is_cancel(self) -> bool:
        """Of an abort file, whether a person wants the end of the run: one that says nothing is a person's."""
        return self.word in (AbortReason.CANCEL, "")


def create_once(path: Path, word: str, reason: str = "") -> bool:
    """Create the file with its whole content; False if it was there already. Safe on NFS: written aside, linked."""
    if path.exists():  # on a full disk nothing can be written aside
        return False
    descriptor, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{word} {reason}".rstrip() + "\n")
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        Path(aside).unlink()
    return True


def preallocate(stop: Path) -> None:
    """Have ready, for a disk that is full by then, what is no person's wish: an empty file would be taken for one."""
    for word in (StopReason.TIME, StopReason.PREEMPT):
        create_once(_spare(stop, word), word)


def write_request(path: Path, word: StopReason | Literal[AbortReason.CANCEL], reason: str) -> bool:
    """Leave a note, on a full disk, too: the spare one, or else an empty file, neither of which needs room there."""
    try:
        return create_once(path, word, reason)
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
    try:
        _leave_without_room(path, _spare(path, word))
    except FileExistsError:
        return False
    return True


def _leave_without_room(path: Path, spare: Path) -> None:
    try:
        os.utime(spare)  # ranks count from the time of the stop file
        os.link(spare, path)
    except FileNotFoundError:
        path.touch(mode=0o600, exist_ok=False)


def _spare(path: Path, word: str) -> Path:
    return path.with_name(f".{path.name}-{word}")


def read_control_file(path: Path) -> ControlFile | None:
    """Read a note; None when there is none. An empty file, as `touch` leaves it, is a note without a word."""
    try:
        return parse_control_file(read_bytes(path))
    except FileNotFoundError:
        return None


def parse_control_file(data: bytes) -> ControlFile:
    word, _, reason = data.decode("utf-8", errors="replace").strip().partition(" ")
    return ControlFile(word, reason)
