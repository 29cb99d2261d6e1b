"""Prefixes of launchers that are not known, learned from a traceback: each of its lines begins with the same one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fsdpctl.explain.logs.prefixes import Prefixed, strip_log_prefix
from fsdpctl.explain.logs.tracebacks import TRACEBACK

_HEAD = re.compile(r"(?P<prefix>\S.{0,58}?)(?:  \+ Exception Group )?Traceback \(most recent call last\):")
_FRAME = r'(?:  \| )?  File "'
_NUMBER = re.compile(r"\d+")
_RANK = re.compile(r"(?i)rank[ =:_-]{0,2}$")
_NODE = re.compile(r"(?i)(?:node|host|pod|algo|instance|machine)[-_ ]?$")
_NO_RANK = re.compile(r"(?i)(?:pid|thread|line)\W{0,2}$|\.\w{1,3}:$|:\w+:$|(?<!\w)\d+[.,:/-]$")
"""Before the numbers of processes, of lines of a source, and of parts of a time."""
_NAME = re.compile(r"[\w.-]+?(?P<end>> |\s*\| |: )")
_MAX_DIGITS = 4
_MAX_FRAMES = 400
"""Lines after the head of a traceback in which one of its frames is looked for."""


@dataclass(frozen=True)
class LearnedPrefix:
    """What comes before each line; `group` is the number, or the name, of what wrote it."""

    pattern: re.Pattern[str]
    group: int
    is_node: bool

    def read(self, line: Prefixed) -> Prefixed:
        """Split the prefix from a line that has no other one; a time stamp before it stays."""
        if _has_writer(line):
            return line
        text = line.text if self.pattern.match(line.text) else strip_log_prefix(line.text)
        if (found := self.pattern.match(text)) is None:
            return line
        writer = found[self.group]
        stamp = line.text[: len(line.text.rstrip()) - len(text.rstrip())]
        own = line._replace(text=stamp + text[found.end() :])
        return own._replace(pod=line.pod or writer) if self.is_node else own._replace(task=int(writer))


def learn_prefix(lines: Sequence[Prefixed]) -> LearnedPrefix | None:
    """Return the prefix of the first traceback that has one which names a rank or a node."""
    tried: set[str] = set()
    for at, line in enumerate(lines):
        if TRACEBACK not in line.text or _has_writer(line):
            continue
        head = _HEAD.match(strip_log_prefix(line.text))
        if head is None or (shape := _NUMBER.sub("0", head["prefix"])) in tried:
            continue
        tried.add(shape)
        if (learned := _learn(head["prefix"], lines, at)) is not None:
            return learned
    return None


def _learn(prefix: str, lines: Sequence[Prefixed], at: int) -> LearnedPrefix | None:
    numbers = list(_NUMBER.finditer(prefix))
    if not numbers:
        return _learn_name(prefix, lines)
    pattern = _NUMBER.sub(r"(\\d+)", re.escape(prefix))
    if not any(_find(pattern + _FRAME, lines[at : at + _MAX_FRAMES])):
        return None
    index = _index_of_rank(prefix, numbers, [found.groups() for found in _find(pattern, lines)])
    before = prefix[: numbers[index].start()]
    if len(numbers[index][0]) > _MAX_DIGITS or _NO_RANK.search(before):
        return None
    return LearnedPrefix(re.compile(pattern), index + 1, _NODE.search(before) is not None)


def _index_of_rank(prefix: str, numbers: Sequence[re.Match[str]], seen: Sequence[tuple[str, ...]]) -> int:
    """Return which number is the rank: the one that is called so, else the last that differs between the lines."""
    indices = range(len(numbers))
    named = [index for index in indices if _RANK.search(prefix[: numbers[index].start()])]
    varying = [index for index in indices if len({values[index] for values in seen}) > 1]
    return (named or varying or indices)[-1]


def _learn_name(prefix: str, lines: Sequence[Prefixed]) -> LearnedPrefix | None:
    """Return a prefix that is the name of a node, if at least two of them wrote tracebacks."""
    if (name := _NAME.fullmatch(prefix)) is None:
        return None
    pattern = rf"([\w.-]+?){re.escape(name['end'])}"
    names = {found[1] for found in _find(pattern + _FRAME, lines)}
    return LearnedPrefix(re.compile(pattern), 1, is_node=True) if len(names) > 1 else None


def _find(pattern: str, lines: Sequence[Prefixed]) -> Iterator[re.Match[str]]:
    compiled = re.compile(pattern)
    for line in lines:
        if not _has_writer(line) and (found := compiled.match(strip_log_prefix(line.text))):
            yield found


def _has_writer(line: Prefixed) -> bool:
    return line.rank is not None or line.local_rank is not None or line.task is not None
