"""Split logical lines of a shell script into statements of words, with shlex. Substitutions stay text.

shlex knows quotes and blanks, and nothing of `$(...)`: before it reads a line, each substitution is replaced by one
character, and so is each dollar sign that the shell would take as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from fsdpctl.other_launchers.shell.lines import OPEN, Line, ShellError, find_end, split_lines

LITERAL_DOLLAR = "\ue000"
"""A dollar sign that the shell takes as it is."""
QUOTED_DOLLAR = "\ue001"
"""A dollar sign in double quotes: what it becomes stays one word."""
LITERAL_BACKTICK = "\ue002"
PATTERN = "\ue003"
"""Before a character outside of quotes that the shell replaces: by names of files, a home directory, or a list."""
_QUOTED_OPERATORS = dict(zip(";&|()<>", map(chr, range(0xE004, 0xE00B)), strict=True))
"""Characters that join commands outside of quotes, and are plain text in them."""
_FIRST_HELD, _LAST_HELD = 0xE010, 0xF8FF
_TEXTS = {PATTERN: "", LITERAL_DOLLAR: "$", QUOTED_DOLLAR: "$", LITERAL_BACKTICK: "`"}
_LITERAL = {"$": LITERAL_DOLLAR, "`": LITERAL_BACKTICK, **_QUOTED_OPERATORS}
_PLAIN = {held: char for char, held in _QUOTED_OPERATORS.items()}
_SEPARATORS = re.compile(r"[;&|()]+")
_REDIRECTION = re.compile(r"&?[<>]+[&|]?")
_OPERATOR = re.compile(f"{_SEPARATORS.pattern}|{_REDIRECTION.pattern}")
_BRACES = re.compile(r"\{[^\s{}'\"$`]*(,|\.\.)[^\s{}'\"$`]*\}")
_CLASS = re.compile(r"\[([!^][^\s\]'\"]*|[^\s\]'\"]*\w-\w[^\s\]'\"]*|\[:\w+:\])\]")
"""A pattern like [0-9] or [!a]; [0] and [0,1] are more often an index, or a list of Hydra."""
_BEFORE_HOME = re.compile(r"(^|[\s;&|(])([A-Za-z_]\w{0,60}=)?$")
_STREAM = re.compile(r"(^|\s)[0-9]$")


@dataclass(frozen=True)
class Statement:
    """One simple command, and the line where it begins."""

    line: int
    words: tuple[str, ...]
    subshell: tuple[int, ...] = ()  # the numbers of the subshells around it, from the outermost


@dataclass
class Script:
    """The statements of a script; its #SBATCH lines, and those of them that sbatch does not read."""

    statements: list[Statement] = field(default_factory=list)
    directives: list[Line] = field(default_factory=list)
    late_directives: list[Line] = field(default_factory=list)


def parse_script(text: str) -> Script:
    """Return the parts of a script. Raise ShellError for an open quote, or an open substitution."""
    script, subshells = Script(), Subshells()
    for line in split_lines(text):
        if line.is_directive:
            (script.late_directives if script.statements else script.directives).append(line)
        else:
            script.statements += split_statements(line.text, line.number, subshells)
    return script


class Subshells:
    """The subshells that are open at a place of a script; each has a number of its own."""

    def __init__(self) -> None:
        self.open: list[int] = []
        self._num_opened = 0

    def take(self, separator: str) -> None:
        """Follow the parentheses of a separator; one that closes nothing is of a `case`."""
        for char in separator:
            if char == "(":
                self._num_opened += 1
                self.open.append(self._num_opened)
            elif char == ")" and self.open:
                self.open.pop()


def split_statements(line: str, number: int, subshells: Subshells | None = None) -> list[Statement]:
    """Return the simple commands of a line. `subshells`: those that are open before it. Raise ShellError."""
    subshells = subshells or Subshells()
    found: list[Statement] = []
    words: list[str] = []
    skips_next = False
    for token, is_operator in (*_split_tokens(line, number), (";", True)):
        if is_operator and _REDIRECTION.fullmatch(token):
            skips_next = True
        elif is_operator:
            if words:
                found.append(Statement(number, tuple(words), tuple(subshells.open)))
            words = []
            subshells.take(token)
        elif skips_next:
            skips_next = False
        else:
            words.append(token)
    return found


def find_operator(line: str, number: int) -> str | None:
    """Return the first word that joins commands or redirects a stream, like `&&` or `>`. Raise ShellError."""
    return next((token for token, is_operator in _split_tokens(line, number) if is_operator), None)


def _split_tokens(line: str, number: int) -> list[tuple[str, bool]]:
    """Return the words of a line, and the operators between them, which are marked. Raise ShellError."""
    held: list[str] = []
    lexer = shlex.shlex(_hold(line, number, held), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return [(_restore(token, held), _OPERATOR.fullmatch(token) is not None) for token in lexer]
    except ValueError as error:
        raise ShellError(number, f"cannot be split into words: {str(error).lower()}") from None


def plain(word: str) -> str:
    """Return the word with its dollar signs and backticks."""
    return (
        word.replace(PATTERN, "")
        .replace(LITERAL_DOLLAR, "$")
        .replace(QUOTED_DOLLAR, "$")
        .replace(LITERAL_BACKTICK, "`")
    )


def assigned(value: str) -> str:
    """Return the value of an assignment, in which the shell fills in home directories and nothing else of a pattern."""
    return re.sub(f"{PATTERN}(?!~)", "", value)


def _is_pattern(line: str, index: int, before: Sequence[str]) -> bool:
    """Return whether the shell would replace an unquoted character, and what belongs to it."""
    match line[index]:
        case "*" | "?":
            return before[-1:] != ["$"]
        case "~":
            return _BEFORE_HOME.search("".join(before[-64:])) is not None
        case "{":
            return _BRACES.match(line, index) is not None
        case "[":
            return _CLASS.match(line, index) is not None
    return False


def _hold(line: str, number: int, held: list[str]) -> str:
    """Return the line with one character in place of each substitution, whose text is added to `held`."""
    out: list[str] = []
    quote, index = "", 0
    while index < len(line):
        char = line[index]
        if quote == "'":
            quote = "" if char == "'" else quote
            out.append(_LITERAL.get(char, char))
        elif char == "\\":
            following = line[index + 1 : index + 2]
            if quote and following in _QUOTED_OPERATORS:
                out.append(char)
            out.append(_LITERAL.get(following, char + following))
            index += 1
        elif char in "$`" and (end := find_end(line, index)):
            if end == OPEN:
                raise ShellError(number, f"{line[index : index + 2]} is not closed")
            if _FIRST_HELD + len(held) > _LAST_HELD:
                raise ShellError(number, "has more substitutions than any script")
            out.append(chr(_FIRST_HELD + len(held)))
            held.append(line[index:end].replace("$", QUOTED_DOLLAR, 1) if quote else line[index:end])
            index = end - 1
        elif char == "$" and quote:
            out.append(QUOTED_DOLLAR)
        else:
            if char in "\"'" and quote in ("", char):
                quote = "" if quote else char
            elif char in "<>" and not quote and _STREAM.search("".join(out[-2:])):
                out.pop()  # the number of a stream, as in 2>
            elif not quote and _is_pattern(line, index, out):
                out.append(PATTERN)
            out.append(_QUOTED_OPERATORS.get(char, char) if quote else char)
        index += 1
    return "".join(out)


def _restore(token: str, held: list[str]) -> str:
    return "".join(
        held[ord(char) - _FIRST_HELD] if 0 <= ord(char) - _FIRST_HELD < len(held) else _PLAIN.get(char, char)
        for char in token
    )
