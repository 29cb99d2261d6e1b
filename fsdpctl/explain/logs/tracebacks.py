"""Tracebacks of Python in a log: their ends and frames, where they were raised, and whether the process continued."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fsdpctl.contract.stack_dump import Frame
from fsdpctl.explain.logs.handled import is_handled

TRACEBACK = "Traceback (most recent call last):"
_IGNORED = ("Exception ignored in", "--- Logging error ---")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')
_RAISE = re.compile(r"\braise\b")
_MISTAKES = ("NameError", "UnboundLocalError", "AttributeError")
_DIGITS = re.compile(r"\d")

Function = tuple[str, str]
"""A file, and the name of a function in it."""


@dataclass(frozen=True)
class Traceback:
    """One traceback; `end` is the line of its exception, from 0, or the number of lines where it is cut off."""

    end: int
    frames: tuple[Frame, ...]
    is_ignored: bool  # as Python itself reports
    is_handled: bool  # the process continued
    failed_in: Function | None  # where the exception was raised on purpose, or by a mistake in a handler

    @property
    def functions(self) -> set[Function]:
        """All that it passed, one of which may have caught the exception."""
        return {(frame.file, frame.function) for frame in self.frames}


def read_traceback(lines: list[str], at: int) -> Traceback:
    """Return the traceback that begins at a line. Remove what a logger has written before each of its lines."""
    _remove_prefix(lines, at)
    end, frames = _skip_frames(lines, at)
    before, after = lines[at - 1] if at else "", lines[end + 1] if end + 1 < len(lines) else ""
    is_own = frames and _is_raised_on_purpose(lines[at : end + 1])
    return Traceback(
        end,
        frames,
        is_ignored=before.startswith(_IGNORED),
        is_handled=is_handled(before, after),
        failed_in=(frames[-1].file, frames[-1].function) if is_own else None,
    )


def _skip_frames(lines: Sequence[str], at: int) -> tuple[int, tuple[Frame, ...]]:
    """Return the line of the exception after a traceback that begins at `at`, and its frames."""
    indent = _indent(lines[at])
    frames = []
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or _is_frame(lines[end], indent)):
        if frame := _FRAME.match(lines[end]):
            frames.append(Frame(frame["file"], int(frame["line"]), frame["function"]))
        end += 1
    return end, tuple(frames)


def _is_frame(line: str, indent: int) -> bool:
    """Return whether a line is of the frames of a traceback; loguru marks the frame that caught it, at the margin."""
    return _indent(line) > indent or line.startswith('File "')


def _is_raised_on_purpose(lines: Sequence[str]) -> bool:
    """Return whether a traceback, of which the last line is the exception, ends at a `raise`, or at a mistake."""
    *before, raised = lines
    source = next((line for line in reversed(before) if line.strip(" ^~")), "")
    return _RAISE.search(source) is not None or raised.startswith(_MISTAKES)


def _remove_prefix(lines: list[str], at: int) -> None:
    """Remove what a logger writes before each line, from the traceback that begins at `at` on."""
    width = lines[at].index(TRACEBACK)
    if not width or at + 1 == len(lines) or not lines[at + 1][width:].startswith('  File "'):
        return
    prefix = _DIGITS.sub("", lines[at][:width])
    while at < len(lines) and _DIGITS.sub("", lines[at][:width]) == prefix:
        lines[at] = lines[at][width:]
        at += 1


def _indent(text: str) -> int:
    """Return the blanks at the begin of a line; none where a progress bar comes before the traceback."""
    stripped = text.lstrip()
    is_after_text = TRACEBACK in stripped and not stripped.startswith(("Traceback", "traceback", "Original"))
    return 0 if is_after_text else len(text) - len(stripped)
