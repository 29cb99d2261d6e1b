"""The stop and abort files: a cause and a reason, created once, by the first writer."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fsdpctl.contract import AbortReason, StopReason
from fsdpctl.contract.codec import write_text
from fsdpctl.contract.files import FULL_DISK, open_log, read_bytes

_STOPPED_BY, _CANCELLED_BY = "fsdpctl stop", "fsdpctl cancel"
_ADDED = f"\n{StopReason.USER} "
"""Where the request of a user begins that was added to a stop file."""


@dataclass(frozen=True)
class ControlFile:
    """The content of a stop or abort file; `touch` leaves both fields empty."""

    cause: str  # StopReason or AbortReason
    reason: str  # free text
    earlier: ControlFile | None = None  # the scheduler's stop to which a user's was added; its grace period remains

    @property
    def is_users_stop(self) -> bool:
        """True for a stop file of a user; an empty one counts as such."""
        return self.cause in (StopReason.USER, "")

    @property
    def is_cancel(self) -> bool:
        """True for an abort file of a user; an empty one counts as such."""
        return self.cause in (AbortReason.CANCEL, "")


def create_once(path: Path, cause: str, reason: str = "") -> bool:
    """Create the file with its whole content; return False if it exists. Safe on NFS: a temporary file is linked."""
    if path.exists():  # a full disk takes no temporary file
        return False
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{cause} {reason}".rstrip() + "\n")
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        Path(temporary).unlink()
    return True


def preallocate(stop: Path, abort: Path) -> None:
    """Create spare files for a full disk: they need no inode then, and an empty one would count as a user's request."""
    for cause in StopReason:
        create_once(_spare(stop, cause), cause)
    create_once(_spare(abort, AbortReason.CANCEL), AbortReason.CANCEL)


def write_request(path: Path, cause: StopReason | Literal[AbortReason.CANCEL], reason: str) -> bool:
    """Create a stop or abort file; return False if it exists. On a full disk it is the spare one, or else empty."""
    try:
        return create_once(path, cause, reason)
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
    try:
        _create_without_space(path, _spare(path, cause))
    except FileExistsError:
        return False
    return True


def request_stop(path: Path) -> None:
    """Create the stop file of a user, or add the request to one of the scheduler, after which a run would come back.

    Ranks choose the grace period by the first word, and measure it from the time of the file: both stay.
    """
    if write_request(path, StopReason.USER, _STOPPED_BY):
        return
    request = read_control_file(path)
    if request is None or request.is_users_stop:
        return
    since = path.stat()
    with open(open_log(path), "a", encoding="utf-8") as file:
        file.write(f"{_ADDED}{_STOPPED_BY}\n")
    os.utime(path, ns=(since.st_atime_ns, since.st_mtime_ns))


def request_cancel(path: Path) -> None:
    """Create the abort file of a user, or put it in the place of one after a fault, which a full disk leaves empty."""
    if write_request(path, AbortReason.CANCEL, _CANCELLED_BY):
        return
    request = read_control_file(path)
    if request is not None and request.is_cancel:
        return
    try:
        write_text(path, f"{AbortReason.CANCEL} {_CANCELLED_BY}\n")
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
        os.truncate(path, 0)


def _create_without_space(path: Path, spare: Path) -> None:
    try:
        os.utime(spare)  # ranks measure the grace period from the time of the stop file
        os.link(spare, path)
    except FileNotFoundError:
        path.touch(mode=0o600, exist_ok=False)
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
        spare.rename(path)  # tmpfs counts a link as an inode; of two requests at once, the later one wins


def _spare(path: Path, cause: str) -> Path:
    return path.with_name(f".{path.name}-{cause}")


def read_control_file(path: Path) -> ControlFile | None:
    """Return the content of a stop or abort file; None if it does not exist. An empty file has an empty cause."""
    try:
        return parse_control_file(read_bytes(path))
    except FileNotFoundError:
        return None


def parse_control_file(data: bytes) -> ControlFile:
    first, added, later = data.decode("utf-8", errors="replace").strip().partition(_ADDED)
    cause, _, reason = first.strip().partition(" ")
    if added and cause not in tuple(AbortReason):
        return ControlFile(StopReason.USER, later.partition("\n")[0], earlier=ControlFile(cause, reason))
    return ControlFile(cause, f"{reason}{added}{later}")
