"""Split a shell script into statements of words, with shlex. Substitutions stay text.

shlex knows quotes and blanks, and nothing of `$(...)`: before it reads a line, each substitution is replaced by one
character, and so is each dollar sign that the shell would take as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

LITERAL_DOLLAR = "\ue000"
"""A dollar sign that the shell takes as it is."""
QUOTED_DOLLAR = "\ue001"
"""A dollar sign in double quotes: what it becomes stays one word."""
_FIRST_HELD, _LAST_HELD = 0xE002, 0xF8FF
_MAX_JOINED = 2000
"""Physical lines of one statement: more is an open quote in a text that is no script."""
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_SEPARATORS = re.compile(r"[;&|()]+")
_REDIRECTION = re.compile(r"&?[<>]+[&|]?")
_CLOSING = {"$(": ("(", ")"), "${": ("{", "}")}


class ShellError(ValueError):
    """A text that no shell would read."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True)
class Statement:
    """One simple command, and the line where it begins."""

    line: int
    words: tuple[str, ...]


@dataclass
class Script:
    """The statements of a script, and its #SBATCH lines: number, text, and whether sbatch reads it."""

    statements: list[Statement] = field(default_factory=list)
    directives: list[tuple[int, str, bool]] = field(default_factory=list)


def parse_script(text: str) -> Script:
    """Return the parts of a script. Raise ShellError for an open quote, or an open substitution."""
    script = Script()
    for number, line in _logical_lines(text):
        if re.match(r"#SBATCH\s", line):
            script.directives.append((number, line[len("#SBATCH") :], not script.statements))
        else:
            script.statements += split_statements(line, number)
    return script


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their number: continued ones joined, here-documents left out."""
    lines = text.splitlines()
    index = 0
    while index < len(lines):
        first, line = index, lines[index]
        index += 1
        if not line.lstrip().startswith("#"):
            while index < len(lines) and index - first < _MAX_JOINED and _is_open(line):
                line = f"{line[:-1]}{lines[index]}" if _continues(line) else f"{line}\n{lines[index]}"
                index += 1
            for found in _HEREDOC.finditer(line):
                while index < len(lines) and lines[index].strip() != found[2]:
                    index += 1
                index += 1
        yield first + 1, line.strip()


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _is_open(line: str) -> bool:
    if _continues(line):
        return True
    try:
        _Scanner(line, 0).scan()
    except ShellError:
        return True
    return False


def split_statements(line: str, number: int) -> list[Statement]:
    """Return the simple commands of a line. Raise ShellError."""
    scanner = _Scanner(line, number)
    lexer = shlex.shlex(scanner.scan(), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        tokens = list(lexer)
    except ValueError as error:
        raise ShellError(number, f"cannot be split into words: {str(error).lower()}") from None
    statements: list[list[str]] = [[]]
    skips_next = False
    for token in tokens:
        if _SEPARATORS.fullmatch(token):
            statements.append([])
        elif _REDIRECTION.fullmatch(token):
            skips_next = True
        elif skips_next:
            skips_next = False
        else:
            statements[-1].append(scanner.restore(token))
    return [Statement(number, tuple(words)) for words in statements if words]


class _Scanner:
    """Replaces substitutions of one line by single characters, and removes its comment."""

    def __init__(self, line: str, number: int) -> None:
        self.line, self.number = line, number
        self.held: list[str] = []

    def scan(self) -> str:
        out: list[str] = []
        quote, index, line = "", 0, self.line
        while index < len(line):
            char = line[index]
            if quote == "'":
                quote = "" if char == "'" else quote
                out.append(LITERAL_DOLLAR if char == "$" else char)
            elif char == "\\":
                following = line[index + 1 : index + 2]
                out.append(LITERAL_DOLLAR if following == "$" else char + following)
                index += 1
            elif char == "`" or line[index : index + 2] in _CLOSING:
                end = self._end(index)
                held = line[index:end]
                out.append(self._hold(held.replace("$", QUOTED_DOLLAR, 1) if quote else held))
                index = end - 1
            elif char == "$" and quote:
                out.append(QUOTED_DOLLAR)
            elif char in "\"'" and quote in ("", char):
                quote = "" if quote else char
                out.append(char)
            elif char == "#" and not quote and (not out or out[-1][-1:].isspace()):
                break
            else:
                if char in "<>" and not quote and re.search(r"(^|\s)[0-9]$", "".join(out[-2:])):
                    out.pop()  # the number of a stream, as in 2>
                out.append(char)
            index += 1
        if quote:
            raise ShellError(self.number, f"the quote {quote} is not closed")
        return "".join(out)

    def _hold(self, text: str) -> str:
        if _FIRST_HELD + len(self.held) > _LAST_HELD:
            raise ShellError(self.number, "has more substitutions than any script")
        self.held.append(text)
        return chr(_FIRST_HELD + len(self.held) - 1)

    def _end(self, start: int) -> int:
        """Return the index behind the substitution that begins at `start`."""
        line = self.line
        if line[start] == "`":
            end = line.find("`", start + 1)
            if end < 0:
                raise ShellError(self.number, "a ` is not closed")
            return end + 1
        opening, closing = _CLOSING[line[start : start + 2]]
        depth = 0
        for index in range(start + 1, len(line)):
            depth += (line[index] == opening) - (line[index] == closing)
            if depth == 0:
                return index + 1
        raise ShellError(self.number, f"{line[start : start + 2]} is not closed")

    def restore(self, token: str) -> str:
        return "".join(
            self.held[ord(char) - _FIRST_HELD] if 0 <= ord(char) - _FIRST_HELD < len(self.held) else char
            for char in token
        )
