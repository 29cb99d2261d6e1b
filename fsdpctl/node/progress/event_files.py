"""Find the TensorBoard files that rank 0 writes, and read steps from them.

Their names have the process that writes them: events.out.tfevents.TIME.HOST.PID.NUMBER. They are searched in a few
directories, with bounded work.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fsdpctl.node.progress.step_report import StepReport, choose_values
from fsdpctl.node.progress.tfevents import EventFile, Scalars

PREFIX = "events.out.tfevents."
SEARCH_EVERY_S = 5.0
MAX_ENTRIES = 5000
"""Entries of directories that one search looks at."""
MAX_DEPTH = 6
MAX_FILES = 8
LOSS_TAGS = ("loss", "train/loss", "loss/train", "train_loss", "training_loss", "train/loss_step", "train_loss_step")
"""The tags that are taken for the loss of `status`, the best one first; upper case counts as lower case."""


class EventFiles:
    """The event files in some directories; `is_writer` is whether those of a process count."""

    def __init__(self, roots: Sequence[Path], is_writer: Callable[[int], bool]) -> None:
        self._roots, self._is_writer = roots, is_writer
        self._files: dict[Path, EventFile | None] = {}  # None: it is damaged
        self._damaged: list[str] = []
        self._next_search = 0.0
        self._steps: dict[int, Scalars] = {}  # that may still get values

    def read(self, now: float, *, is_end: bool = False) -> list[StepReport]:
        """Return the new steps in order. The newest one is complete when no event came since the last call."""
        if now >= self._next_search and len(self._files) < MAX_FILES:
            self._next_search = now + SEARCH_EVERY_S
            for path in find_event_files(self._roots, self._is_writer):
                self._files.setdefault(path, EventFile(path))
        events = [event for path in self._files for event in self._read(path)]
        for event in events:
            before = self._steps.get(event.step)
            values = {**before.values, **event.values} if before is not None else event.values
            self._steps[event.step] = Scalars(event.time, event.step, values)
        complete = sorted(self._steps)[: -1 if events and not is_end else None]
        return [_report(self._steps.pop(step)) for step in complete]

    def take_damaged(self) -> list[str]:
        """Return the files that were found damaged since the last call, and why; they are read no further."""
        damaged, self._damaged = self._damaged, []
        return damaged

    def _read(self, path: Path) -> list[Scalars]:
        file = self._files[path]
        try:
            return file.read() if file is not None else []
        except ValueError as error:
            self._files[path] = None
            self._damaged.append(f"{path}: {error}")
        except OSError:
            pass  # the next look tries again
        return []


def _report(event: Scalars) -> StepReport:
    return StepReport(event.step, event.time, choose_values(with_loss(event.values)))


def with_loss(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values by tag, with the one that is most likely the loss also by that name."""
    tags = {tag.lower(): tag for tag in values}
    loss = next((tags[name] for name in LOSS_TAGS if name in tags), None)
    return {**values, "loss": values[loss]} if loss is not None else dict(values)


def find_event_files(roots: Sequence[Path], is_writer: Callable[[int], bool]) -> Iterator[Path]:
    """Yield the event files of processes that count, those near to a root first. Links are not followed."""
    left = MAX_ENTRIES
    for root in roots:
        level = [str(root)]
        for _ in range(MAX_DEPTH):
            below = []
            for directory in level:
                for entry in _entries(directory, left):
                    left -= 1
                    if entry.name.startswith(PREFIX) and is_writer(_writer_of(entry.name)):
                        yield Path(entry.path)
                    elif not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
            level = below


def _entries(directory: str, count: int) -> list[os.DirEntry[str]]:
    found: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if len(found) == count:
                break
            found.append(entry)
    return found


def _writer_of(name: str) -> int:
    """Return the process of this host that a name has; 0 for those of other hosts."""
    _, _, rest = name.removeprefix(PREFIX).partition(".")
    process, _, _ = rest.removeprefix(f"{socket.gethostname()}.").partition(".")
    return int(process) if process.isdecimal() else 0
