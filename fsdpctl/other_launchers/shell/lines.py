"""Split a shell script into logical lines in one pass: quotes, substitutions and here-documents may span several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEREDOC = re.compile(r"<<-?[ \t]*(['\"\\]?)(\w+)\1")
_CLOSING = {"$(": ("(", ")"), "${": ("{", "}")}
_DIRECTIVE = re.compile(r"#SBATCH(?=\s)")


class ShellError(ValueError):
    """A text that no shell would read."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True)
class Line:
    """A logical line without its comment; a directive is what follows #SBATCH."""

    number: int
    text: str
    is_directive: bool = False


OPEN = -1


def find_end(text: str, start: int) -> int | None:
    """Return the index behind the substitution that begins at `start`; None if none begins there, OPEN without end."""
    if text[start] == "`":
        end = text.find("`", start + 1)
        return end + 1 if end >= 0 else OPEN
    opener = text[start : start + 2]
    if opener not in _CLOSING:
        return None
    opening, closing = _CLOSING[opener]
    depth = 0
    for index in range(start + 1, len(text)):
        depth += (text[index] == opening) - (text[index] == closing)
        if depth == 0:
            return index + 1
    return OPEN


def split_lines(text: str) -> Iterator[Line]:
    """Yield the logical lines. Raise ShellError for an open quote or substitution."""
    index, number = 0, 1
    while index < len(text):
        if found := _DIRECTIVE.match(text, index):
            end = _line_end(text, index)
            yield Line(number, text[found.end() : end], is_directive=True)
        else:
            end, words = _scan(text, index, number)
            if words.strip():
                yield Line(number, words.strip())
        number += text.count("\n", index, end + 1)
        index = end + 1
        for delimiter in _HEREDOC.findall(words) if not found else ():
            while index < len(text):
                end = _line_end(text, index)
                is_last = text[index:end].strip() == delimiter[1]
                index, number = end + 1, number + 1
                if is_last:
                    break


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end


def _scan(text: str, start: int, number: int) -> tuple[int, str]:
    """Return the end of the logical line, and its text: joined, and without comment."""
    parts: list[str] = []
    quote, quoted_from, index = "", start, start
    while index < len(text):
        char = text[index]
        if quote == "'":
            quote = "" if char == "'" else quote
        elif char == "\\":
            following = text[index + 1 : index + 2]
            parts.append("" if following == "\n" else char + following)
            index += 2
            continue
        elif char in "$`" and (end := find_end(text, index)):
            if end == OPEN:
                raise ShellError(number + text.count("\n", start, index), f"{text[index : index + 2]} is not closed")
            parts.append(text[index:end])
            index = end
            continue
        elif char in "\"'" and quote in ("", char):
            quote, quoted_from = "" if quote else char, index
        elif char == "\n" and not quote:
            return index, "".join(parts)
        elif char == "#" and not quote and (not parts or parts[-1][-1:].isspace()):
            return _line_end(text, index), "".join(parts)
        parts.append(char)
        index += 1
    if quote:
        raise ShellError(number + text.count("\n", start, quoted_from), f"the quote {quote} is not closed")
    return index, "".join(parts)
