"""What a log states of failures: uncaught exceptions with their whole messages, and single lines.

Text that a script prints counts only where it looks like the end of a traceback: at the begin of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile

from fsdpctl.contract.stack_dump import Frame, find_main, parse_stacks
from fsdpctl.explain.logs.prefilter import may_matter
from fsdpctl.explain.logs.prefixes import strip_log_prefix
from fsdpctl.explain.logs.tracebacks import TRACEBACK, Function, read_traceback

MAX_MESSAGE_LINES = 40
"""Lines of an exception's message that are read."""
MAX_STACK_LINES = 400
"""Lines that are read of the stacks that Python's fault handler writes."""

_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_MODULE = r"(?:[A-Za-z_]\w*\.)"
_ENDS = "Error|Exception|Interrupt|Timeout|Exit|NotFound|Abort|Failure|Unsupported|Failed|Group|TimedOut|Exceeded"
_LEVELS = "(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SEVERE)"
_RAISED = re.compile(
    rf"(?!Killed|Terminated|Aborted|Segmentation|{_LEVELS}\b){_MODULE}*(?:[A-Za-z_]*[A-Z]\w*|\w*error|timeout)"
    r"(?:\(\w+\))?(?::(?: |$)|$)"
)
_HEAD = re.compile(
    rf"""(?:E\ +)?(?!nccl)(
      (?:{_MODULE}*\w*(?:{_ENDS}) | {_MODULE}+[A-Z]\w* | {_MODULE}*\w+error | c10::\w*Error)
      (?:\(\w+\))?(?::\ .*|:?$)  # Ray has the type of the cause in parentheses
    )""",
    re.VERBOSE,
)
_REPR = re.compile(rf"""(?<![\w.])((?:{_MODULE})*\w+(?:Error|Exception|Interrupt|Timeout))\((?:(['"])(.*?)\2,?)?\)""")
"""An exception as `repr` writes it."""
_WRAPPED = re.compile(rf"""(?:{_MODULE})*Exception: ['"]?(?={_REPR.pattern}['"]?$)""")
_NCCL = re.compile(r"nccl\w*Error: ")
_WHAT = re.compile(r"(?:\s*what\(\): +|.*thread terminated with exception: )(.*)")
_FAULT = re.compile(r"Fatal Python error: |Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!")
_GROUP = re.compile(r"^ +(?:\+ (?=Exception Group Traceback)|\| ?|\+[-+]+(?: \d+ -+)?$)")
"""What Python writes before the lines of an ExceptionGroup, at any depth."""
_MILD = re.compile(r"\b(?:WARN|WARNING|INFO|DEBUG|TRACE)\b|^\[?[WI]\d{3,4} |- (?:warning|info) -")
_DELIMITER = re.compile(
    r"""^|(?:[\])>|]|(?<!Error)(?<!Exception):|\s-)\s{1,8}(?=\w)|"(?:msg|message|log|err|error|exc|exception|exc_info)"\s*:\s*\"""",
)
_NEXT_MESSAGE = re.compile(
    r"""\s*$ | \[?\d{4}-\d\d-\d\d | \[?[WIEF]\d{4}\  | \[[WIEF]\d*\  | wandb: | slurmstepd | srun: | Traceback | WARNING
    | INFO | ERROR | \S+:\d+:\d+\ \[ | (?:Segmentation\ fault|Killed|Aborted|Bus\ error|Terminated)\b | Fatal\ Python
    | terminate\ called | \*\*\* | Exception\ raised\ from""",
    re.VERBOSE,
)
"""The begin of a line that is no part of the message before it."""


class Link(StrEnum):
    """How an exception belongs to the one before it."""

    NONE = "none"
    CONTEXT = "context"  # raised while the other one was handled
    CAUSE = "cause"  # raised from the other one, or for it by the function that caught it


@dataclass(frozen=True)
class Statement:
    """One exception or one line; `number` and `last` are its lines, from 0."""

    number: int
    last: int
    text: str
    is_exception: bool = False
    is_message: bool = False
    is_bare: bool = False  # a message that does not begin with the type of an exception
    in_traceback: bool = False
    is_handled: bool = False  # the process continued
    link: Link = Link.NONE
    frames: tuple[Frame, ...] = ()


def read_statements(text: Sequence[str]) -> Iterator[Statement]:
    """Yield the exceptions and lines of one process's log. Lines of a message are also yielded by themselves."""
    lines = [_GROUP.sub("", line, count=1) for line in text]
    link, caught_in, at = Link.NONE, set[Function](), 0
    while at < len(lines):
        line = lines[at]
        found = None
        if TRACEBACK in line:
            traceback = read_traceback(lines, at)
            if traceback.is_ignored:
                at = traceback.end + 1
                continue
            if link is Link.CONTEXT and traceback.failed_in in caught_in:
                link = Link.CAUSE
            caught_in = traceback.functions
            raised = lines[traceback.end].strip() if traceback.end < len(lines) else ""
            if _RAISED.match(raised):
                found = _exception(lines, traceback.end, raised, traceback.frames, link=link)
                found = replace(found, is_handled=traceback.is_handled)
            link = Link.NONE
        elif line.startswith((_CAUSE, _CONTEXT)):
            link = Link.CAUSE if line.startswith(_CAUSE) else Link.CONTEXT
        if found is None and may_matter(line):
            found = _read_line(lines, at)
        if found is not None:
            yield found
            at = found.number
        at += 1


def read_messages(lines: Sequence[str]) -> Iterator[Statement]:
    """Yield what follows a delimiter in the lines: for logs whose prefixes are not known, and errors without a type."""
    for number, line in enumerate(lines):
        if may_matter(line) and not _MILD.search(line):
            for delimiter in _DELIMITER.finditer(line):
                text = line[delimiter.end() :]
                if delimiter[0].endswith('"'):
                    text = text.partition('"')[0]
                is_bare = _HEAD.match(text) is None
                yield Statement(number, number, text, is_exception=True, is_message=True, is_bare=is_bare)
            for found in _REPR.finditer(line):
                yield Statement(number, number, _of_repr(found), is_exception=True, is_message=True)


def _of_repr(found: re.Match[str]) -> str:
    """Return an exception as a traceback ends with it."""
    return f"{found[1]}: {found[3]}" if found[3] else found[1]


def _read_line(lines: Sequence[str], at: int) -> Statement | None:
    if what := _WHAT.match(lines[at]):
        return _exception(lines, at, f"c10::Error: {what[1]}")
    text = strip_log_prefix(lines[at])
    if _MILD.search(lines[at][: len(lines[at]) - len(text)]):
        return Statement(at, at, lines[at])  # a warning about an exception is none
    if head := _HEAD.match(text):
        return _exception(lines, at, head[1])
    frames = _fault_frames(lines, at) if _FAULT.match(text) else ()
    return Statement(at, at, text, frames=frames) if text else None


def _fault_frames(lines: Sequence[str], at: int) -> tuple[Frame, ...]:
    """Return the frames of the thread in which a fault happened, else of the main thread, the innermost last."""
    stacks = takewhile(lambda line: not _FAULT.match(line), lines[at + 1 : at + MAX_STACK_LINES])
    threads = parse_stacks("\n".join(stacks))
    thread = find_main(threads) or (threads[-1] if threads else None)  # the main thread is written last
    return () if thread is None else thread.frames[::-1]


def _exception(
    lines: Sequence[str], at: int, head: str, frames: tuple[Frame, ...] = (), link: Link | None = None
) -> Statement:
    """Return the statement of an exception; one in a traceback has a link."""
    if (wrapped := _WRAPPED.match(head)) is not None and (inner := _REPR.search(head, wrapped.end())) is not None:
        head = _of_repr(inner)
    message = [head]
    last = at
    is_of_nccl = "nccl" in head.lower()
    for text in lines[at + 1 : at + MAX_MESSAGE_LINES]:
        is_inner = last == at and head.endswith("raised:")  # a compiler reports the error of its own in the next line
        if _NEXT_MESSAGE.match(text) or (_HEAD.match(text) and not is_inner) or (_NCCL.match(text) and not is_of_nccl):
            break
        last += 1
        message.append(text)
    text = "\n".join(message)
    in_traceback, link = link is not None, link or Link.NONE
    return Statement(at, last, text, is_exception=True, in_traceback=in_traceback, link=link, frames=frames)
