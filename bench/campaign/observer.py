"""The outside observer: it reads metrics.jsonl and its own clock, and knows nothing of fsdpctl's records."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

EVERY_S = 0.02


@dataclass(frozen=True)
class Seen:
    """A step of an attempt, and when its line was first seen."""

    time: float
    attempt: int
    step: int


class Observer:
    """Watches the file of one run in a thread, until `close`. No step is waited for once `has_ended` returns true."""

    def __init__(self, metrics: Path, has_ended: Callable[[], bool]) -> None:
        self._metrics, self._has_ended = metrics, has_ended
        self._known: set[tuple[int, int]] = set()
        self._inode, self._offset = 0, 0
        self.seen: list[Seen] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="observer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def newest_attempt(self) -> int:
        return self.seen[-1].attempt if self.seen else 0

    def wait_step(self, attempt: int, limit_s: float, *, after: float = 0.0, count: int = 1) -> Seen | None:
        """Wait for so many steps of this attempt or a later one, seen after a time; return the first of them."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and not self._has_ended():
            found = [seen for seen in self.seen if seen.attempt >= attempt and seen.time > after]
            if len(found) >= count:
                return found[0]
            time.sleep(EVERY_S)
        return None

    def kept(self) -> set[tuple[int, int]]:
        """Return attempt and step of the lines that the file has now: the others were done again."""
        with self._metrics.open("rb") as file:
            return {key for key, _ in _read(file, 0)}

    def _work(self) -> None:
        while not self._closing.wait(EVERY_S):
            with suppress(OSError):
                self._look()

    def _look(self) -> None:
        with self._metrics.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._inode, self._offset = status.st_ino, 0  # a new attempt has replaced it
            now = time.time()
            for key, end in _read(file, self._offset):
                self._offset = end
                if key not in self._known:
                    self._known.add(key)
                    self.seen.append(Seen(now, *key))


def _read(file: BinaryIO, offset: int) -> list[tuple[tuple[int, int], int]]:
    """Return attempt and step of each whole line from `offset` onwards, and where it ends."""
    found = []
    file.seek(offset)
    for line in file:
        if not line.endswith(b"\n"):
            break  # its rest may come before the next read, which would take that for a line
        offset += len(line)
        record = json.loads(line)
        found.append(((record["attempt"], record["step"]), offset))
    return found
