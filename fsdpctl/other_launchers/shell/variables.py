"""The variables of a script that are known from its text: those that it sets, and Slurm's own."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Sequence

from fsdpctl.other_launchers.shell.lines import ShellError
from fsdpctl.other_launchers.shell.statements import PATTERN, QUOTED_DOLLAR, split_statements

MAX_VALUE = 10_000
"""Characters of a value: a script that doubles one on each line must not fill the memory."""
MAX_COMMAND = 1_000_000
"""Characters of a command with all of its variables."""
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
SECRET_NAME = re.compile(
    r"(^|_)(API_?KEY|TOKEN|SECRET|SECRET_KEY|ACCESS_KEY|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE
)
_DOLLAR = f"[${QUOTED_DOLLAR}]"
_REFERENCE = re.compile(rf"{_DOLLAR}(?:([A-Za-z_]\w*)|\{{(\w+)(?::?-([^${{}}]*))?\}}|\(\(([\w\s$+*/()-]{{1,200}})\)\))")
_WHOLE = re.compile(r"\$(\w+|\{\w+\})")
_UNKNOWN = re.compile(r"\$[\w@*#?!-]+|\$\{[^}]*\}|\$\(.*\)|`[^`]*`|\$", re.DOTALL)
_PATTERN = re.compile(rf"{PATTERN}(\{{[^}}]*\}}|\[[^\]]*\]+|.)")
_HEAD = re.compile(r"\bscontrol\s+show\s+hostnames?\b|\bhostname\b|SLURM_(NODELIST|JOB_NODELIST)")
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv}
_MAX_NUMBER = 10**9


class Variables:
    """Values of variables as text: what is not known of them stays a reference."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self._made_of: dict[str, set[str]] = {}

    def assign(self, name: str, value: str) -> None:
        """Set a variable; one whose value is empty or huge becomes unknown."""
        self._made_of[name] = _names_in([value])
        resolved = self.resolve(value)
        if 0 < len(resolved) <= MAX_VALUE:
            self.known[name] = resolved
        else:
            self.known.pop(name, None)

    def resolve(self, word: str) -> str:
        """Return the word with all known variables filled in, and with defaults of the others."""
        return _REFERENCE.sub(self._value, word)

    def _value(self, found: re.Match[str]) -> str:
        if found[4] is not None:
            return self._arithmetic(found[4]) or found[0]
        return self.known.get(found[1] or found[2], found[3] if found[3] is not None else found[0])

    def _arithmetic(self, text: str) -> str | None:
        """Return the value of sums and products of whole numbers; None for anything else."""
        filled = re.sub(r"\$?([A-Za-z_]\w*)", lambda name: self.known.get(name[1], "?"), text)
        if not re.fullmatch(r"[\d\s+*/()-]{1,200}", filled):
            return None
        try:
            value = _evaluate(ast.parse(filled.strip(), mode="eval").body)
        except (SyntaxError, ZeroDivisionError, ValueError):
            return None
        return str(value)

    def expand(self, words: Sequence[str], line: int) -> tuple[str, ...]:
        """Return the words as the shell passes them: an unquoted variable may become several. Raise ShellError."""
        expanded: list[str] = []
        size = 0
        for word in words:
            resolved = self.resolve(word)
            if _WHOLE.fullmatch(word) and resolved != word:
                expanded += [inner for statement in split_statements(resolved, line) for inner in statement.words]
            else:
                expanded.append(resolved)
            size += len(resolved)
            if size > MAX_COMMAND:
                raise ShellError(line, f"has more than {MAX_COMMAND:,} characters with its variables filled in")
        return tuple(expanded)

    def behind(self, words: Sequence[str]) -> set[str]:
        """Return the variables in the words, and those that these were made of."""
        found: set[str] = set()
        waiting = _names_in(words)
        while waiting:
            name = waiting.pop()
            found.add(name)
            waiting |= self._made_of.get(name, set()) - found
        return found


def _names_in(words: Sequence[str]) -> set[str]:
    return {found[1] or found[2] for word in words for found in _REFERENCE.finditer(word)} - {None}


def _evaluate(node: ast.AST) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value <= _MAX_NUMBER:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        value = int(_OPERATORS[type(node.op)](_evaluate(node.left), _evaluate(node.right)))
        if abs(value) <= _MAX_NUMBER:
            return value
    raise ValueError("no plain arithmetic")


def is_resolved(word: str) -> bool:
    """Return whether the shell would leave the word as it is."""
    return not re.search(rf"{_DOLLAR}|`|{PATTERN}", word)


def is_head_idiom(word: str) -> bool:
    """Return whether a word is one of the usual ways to find the first node of a job."""
    return _HEAD.search(word) is not None


def unknown_in(word: str) -> str:
    """Return the first thing in a word that a shell would fill in."""
    text = word.replace(QUOTED_DOLLAR, "$")
    if found := _PATTERN.search(text):
        return found[1]
    found = _UNKNOWN.search(text)
    return found[0] if found else text
