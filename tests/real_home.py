"""Hide the developer's registry and profiles from everything that a test session starts.

The session enters a mount namespace of its own and covers each real place with an empty directory. All its processes
inherit that, in whatever language and with whatever environment: what they write there is seen by the guard and never
reaches the real home. Other processes of the same user are not affected, and what they write is not seen here.
Without the privilege to mount, only HOME and FSDPCTL_HOME protect the real home.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

REAL_HOME = Path.home()
PLACES = (REAL_HOME / ".local" / "state" / "fsdpctl", REAL_HOME / ".config" / "fsdpctl")
_CLONE_NEWNS = 0x0002_0000
_COVER = "fsdpctl-real-home"
_created: list[Path] = []
_in_use: list[int] = []


def pytest_configure(config: pytest.Config) -> None:
    if not _is_xdist_worker(config):  # workers inherit the namespace
        hide()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _is_xdist_worker(config):
        unhide()


@pytest.fixture(autouse=True)
def real_home_stays_untouched() -> Iterator[None]:
    yield
    written = take_written()
    assert not written, f"written to the real home by a process of this test session: {written}"


def hide() -> None:
    """Cover the places, if this process may mount."""
    if sys.platform != "linux" or ctypes.CDLL(None).unshare(_CLONE_NEWNS) != 0:
        return
    if not _run("mount", "--make-rprivate", "/"):
        return
    for place in PLACES:
        _created.extend(path for path in (place, *place.parents) if not path.exists())
        place.mkdir(parents=True, exist_ok=True)
        _in_use.append(os.open(place, os.O_RDONLY))
        fcntl.flock(_in_use[-1], fcntl.LOCK_SH)
        _run("mount", "-t", "tmpfs", "-o", "size=16m,mode=700", _COVER, str(place))


def unhide() -> None:
    """Uncover the places, and remove those that were missing unless they are in use."""
    for place in PLACES if is_hidden() else ():
        _run("umount", "--lazy", str(place))
    with suppress(OSError):  # covered by another session too, or no longer empty
        for descriptor in _in_use:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in _created:
            path.rmdir()


def is_hidden() -> bool:
    if sys.platform != "linux":
        return False
    mounts = Path("/proc/self/mounts").read_text().replace(r"\040", " ")
    return all(f"\n{_COVER} {place} tmpfs " in mounts for place in PLACES)


def take_written() -> list[str]:
    """Return what processes of this session have written to the places, and remove it."""
    found = [path for place in PLACES for path in place.iterdir()] if is_hidden() else []
    for path in found:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return sorted(map(str, found))


def _is_xdist_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _run(*words: str) -> bool:
    return subprocess.run(words, check=False, capture_output=True).returncode == 0
