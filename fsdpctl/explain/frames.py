"""The frames of the user's code in the text of a traceback, of an exception or of Python's fault handler."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.source_files import is_library
from fsdpctl.contract.stack_dump import find_main, parse_stacks

SHOWN = 3

_FRAME = re.compile(
    r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>[^\n]*)(?P<code>\n {4,}\S[^\n]*)?', re.M
)
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):$", re.M)


@dataclass(frozen=True)
class Frames:
    """The last frames of the user's code, the innermost last, and how many others are left out."""

    shown: tuple[str, ...] = ()
    folded: int = 0


class _Frame(NamedTuple):
    file: str
    line: int
    function: str
    code: str = ""


def user_frames(text: str, run: RunPaths) -> Frames:
    """Return the frames of the user's code; of the trainer's, where the traceback has no others.

    An exception that was raised from another one has several tracebacks: the first has its origin.
    """
    blocks = [_frames(block) for block in _TRACEBACK.split(text)[1:]] or [_fault_frames(text)]
    for is_kept in (_is_users, _is_trainers):
        for frames in blocks:
            if own := [frame for frame in frames if is_kept(frame.file, run)]:
                shown = tuple(_describe(frame, run) for frame in own[-SHOWN:])
                return Frames(shown, len(frames) - len(shown))
    return Frames(folded=sum(map(len, blocks)))


def _frames(text: str) -> list[_Frame]:
    found = _FRAME.finditer(text)
    return [_Frame(f["file"], int(f["line"]), f["function"], (f["code"] or "").strip()) for f in found]


def _fault_frames(text: str) -> list[_Frame]:
    """Return the frames of the thread in which a fault happened, in the order of a traceback."""
    main = find_main(parse_stacks(text))
    return [] if main is None else [_Frame(f.file, f.line, f.function) for f in reversed(main.frames)]


def _is_users(file: str, run: RunPaths) -> bool:
    if is_library(file):
        return False
    path = Path(file)
    return path.is_relative_to(run.source) or not path.is_relative_to(run.code)


def _is_trainers(file: str, run: RunPaths) -> bool:
    return Path(file).is_relative_to(run.packages()[1])


def _describe(frame: _Frame, run: RunPaths) -> str:
    path = Path(frame.file)
    for root in (run.source, run.code):
        if path.is_relative_to(root):
            path = path.relative_to(root)
    return f"{path}:{frame.line} in {frame.function}" + (f": {frame.code}" if frame.code else "")
