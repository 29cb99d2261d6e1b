"""The stacks of a process in the format of Python's faulthandler, as values: it writes `Stack` for one thread only."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fsdpctl.contract.source_files import is_users

_THREAD = re.compile(r"^(?:(Stack|Current thread|Thread)) ?(?:0x[0-9a-f]+ )?(?:\[(.*)\] )?\(most recent call first\):$")
_THREAD_WAITS = ("/threading.py", "/concurrent/futures/_base.py", "/queue.py")
_COLLECTIVES = "/torch/distributed/"
_FRAME = re.compile(r'^ {1,2}File "(.*)", line (\d+) in (.*)$')


@dataclass(frozen=True)
class Frame:
    """A frame of Python."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}"


@dataclass(frozen=True)
class ThreadStack:
    """One thread; the most recent call first."""

    is_main: bool
    frames: tuple[Frame, ...]
    name: str = ""
    is_alone: bool = False  # the dump has this thread only, whatever others there are


def parse_stacks(text: str) -> tuple[ThreadStack, ...]:
    """Return the threads of a dump, the main thread first; without it, the dump is not complete."""
    threads: list[tuple[str, str, list[Frame]]] = []
    for line in text.splitlines():
        if (thread := _THREAD.match(line)) is not None:
            threads.append((thread[1], thread[2] or "", []))
        elif threads and (frame := _FRAME.match(line)) is not None:
            threads[-1][2].append(Frame(frame[1], int(frame[2]), frame[3]))
    found = [
        ThreadStack(title != "Thread", tuple(frames), name, is_alone=title == "Stack")
        for title, name, frames in threads
    ]
    return tuple(sorted(found, key=lambda thread: not thread.is_main))


def find_main(threads: tuple[ThreadStack, ...]) -> ThreadStack | None:
    """Return the main thread; None if the dump has not come so far."""
    return threads[0] if threads and threads[0].is_main and threads[0].frames else None


def find_active(threads: tuple[ThreadStack, ...]) -> ThreadStack | None:
    """Return the thread on which progress depends: the main thread, or the one for which that waits; None if it is not
    in the dump."""
    main = find_main(threads)
    if main is None or not _waits_for_thread(main):
        return main
    if main.is_alone:
        return None
    return next((thread for thread in threads[1:] if _may_be_awaited(thread)), main)


def _may_be_awaited(thread: ThreadStack) -> bool:
    """Return whether a thread is at work for the user's code or a checkpoint of torch: libraries have threads of their
    own that only sleep or wait for a pipe, such as the timer of torch/_inductor/compile_worker."""
    is_at_work = bool(thread.frames) and not _waits_for_thread(thread)
    return is_at_work and any(is_users(frame.file) or _COLLECTIVES in frame.file for frame in thread.frames)


def _waits_for_thread(thread: ThreadStack) -> bool:
    return thread.frames[0].file.endswith(_THREAD_WAITS)
