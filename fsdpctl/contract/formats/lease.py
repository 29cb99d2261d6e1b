"""A lease on a checkpoint: while a command reads it, the retention of the run leaves it alone.

It is a file beside the checkpoint, `step-00000400.lease-<host>-<pid>-...`, which the reader touches again and again.
Retention compares only its changes, by its own clock: one without a change is of a reader that is gone. A reader whose
lease came too late finds no checkpoint, and takes a newer one.
"""

from __future__ import annotations

import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

RENEW_S = 10.0
EXPIRES_S = 60.0
STALE_S = 3600.0
"""For those who look once, and cannot see whether it changes: clocks of hosts differ."""

_INFIX = ".lease-"


def lease_of(directory: Path) -> Path:
    """Return the file of a new lease on a checkpoint."""
    owner = f"{platform.node()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    return directory.with_name(f"{directory.name}{_INFIX}{owner}")


def find_leases(root: Path) -> list[str]:
    """Return the names of the checkpoints in a directory that are being read."""
    names, since = set(), time.time() - STALE_S
    for path in root.glob(f"*{_INFIX}*"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime > since:
                names.add(path.name.partition(_INFIX)[0])
    return sorted(names)


@contextmanager
def leased(directory: Path) -> Iterator[None]:
    """Hold a lease on a checkpoint on a disk of this machine; on one where nothing can be written, none."""
    path = lease_of(directory)
    with held(partial(path.touch, mode=0o600), path.unlink, OSError):
        yield


@contextmanager
def held(touch: Callable[[], object], release: Callable[[], object], errors: type[Exception]) -> Iterator[None]:
    """Call `touch` now and every RENEW_S, in a thread, and at the end `release`. Their `errors` end no reading."""
    is_over = threading.Event()

    def renew() -> None:
        while not is_over.wait(RENEW_S):
            with suppress(errors):
                touch()

    with suppress(errors):
        touch()
    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()  # else it could create the file again
        with suppress(errors):
            release()


class LeaseWatch:
    """The leases in one directory of checkpoints, as its retention sees them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[Path, tuple[int, float]] = {}  # when it was touched, and since when that is known here

    def find_leased(self, root: Path) -> set[str]:
        """Return the names of the checkpoints that are being read; remove the leases of readers that are gone."""
        names = set()
        for path in root.glob(f"*{_INFIX}*"):
            if self._is_renewed(path):
                names.add(path.name.partition(_INFIX)[0])
            else:
                path.unlink(missing_ok=True)
        return names

    def _is_renewed(self, path: Path) -> bool:
        try:
            touched = path.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        now = self._clock()
        before, since = self._seen.get(path, (None, now))
        self._seen[path] = (touched, since if touched == before else now)
        return touched != before or now - since <= EXPIRES_S
