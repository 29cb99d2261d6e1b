"""The stacks of all threads of a rank, written when its agent asks for them.

The main thread of a rank that waits in a collective runs no Python, so a thread of its own waits for the signal. It
reads the stacks while it holds the interpreter's lock. faulthandler's own handler reads those of running threads, and
crashes now and then: busy processes of Python 3.11 to 3.13 after 56 to 1071 dumps, and a rank that compiled on a GPU.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType

from fsdpctl.node.os.signals import DUMP_SIGNAL, FORCED_DUMP_SIGNAL, answering_threads, start_answering

_MAX_FRAMES = 200


class StackWriter:
    """Writes the stacks of this process to `path` at each DUMP_SIGNAL."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)

    def start(self) -> None:
        """Begin to wait for requests, as `signals.start_answering`.

        FORCED_DUMP_SIGNAL is for a process whose lock is never released: the kernel hands it to the main thread.
        """
        faulthandler.register(FORCED_DUMP_SIGNAL, file=self._descriptor, all_threads=False)
        start_answering(DUMP_SIGNAL, self._write, name="stacks")

    def _write(self) -> None:
        data = format_stacks().encode(errors="backslashreplace")
        with suppress(OSError):  # a full disk must not end the thread
            os.truncate(self._descriptor, 0)
            os.write(self._descriptor, data)


def format_stacks() -> str:
    """Return the stacks of all threads in the format of faulthandler, the main thread as the current one."""
    main = threading.main_thread().ident
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    # A frame whose own variables hold it would keep those of all threads, with each tensor that they work on, until
    # the next garbage collection: 5 GiB of a GPU's memory.
    del frames[threading.get_ident()]
    parts = []
    for ident, frame in sorted(frames.items(), key=lambda item: item[0] == main):
        if ident not in answering_threads:
            title = "Current thread" if ident == main else "Thread"
            parts.append(f"{title} 0x{ident:016x} [{names.get(ident, '')}] (most recent call first):\n{_frames(frame)}")
    return "\n".join(parts)


def _frames(frame: FrameType | None) -> str:
    lines: list[str] = []
    while frame is not None and len(lines) < _MAX_FRAMES:
        code = frame.f_code
        lines.append(f'  File "{code.co_filename}", line {frame.f_lineno or 0} in {code.co_name}\n')
        frame = frame.f_back
    return "".join(lines)
