"""What to write in place of a text that is given as an entrypoint: the exact keys."""

from __future__ import annotations

import json
import re
import shlex

from fsdpctl.schema.problems import shorten

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_PYTHON = re.compile(r"python[0-9.]*")
_LAUNCHER = re.compile(rf"{_PYTHON.pattern}|torchrun|accelerate|deepspeed|srun|mpirun")


def explain_text(given: str | list[object]) -> str:
    """Return the keys that have the meaning of an entrypoint that is a text, or a list of words."""
    words = [str(word) for word in given] if isinstance(given, list) else _split(given)
    start = 1 if words and _PYTHON.fullmatch(words[0]) else 0
    is_module = words[start : start + 1] == ["-m"]
    program, args = words[start + is_module :][:1], words[start + is_module + 1 :]
    text = shlex.join(words)
    if program and (is_module or program[0].endswith(".py")):
        return f"write {_keys('module' if is_module else 'script', program[0], args)}"
    if len(words) == 1 and _MODULE.fullmatch(words[0]) and not _LAUNCHER.fullmatch(words[0]):
        return f"write {_keys('module', words[0], [])} for a module; a script ends in .py"
    return f"a launcher and its options are a command: write `command: {shorten(text, 200)}` in place of `entrypoint`"


def explain_script(given: str) -> str | None:
    """Return what to write in place of a `script` that is a command; None for a path, which may have blanks."""
    words = _split(given)
    is_command = len(words) > 1 and (_LAUNCHER.fullmatch(words[0]) or words[0].endswith(".py"))
    return explain_text(given) if is_command else None


def _keys(kind: str, program: str, args: list[str]) -> str:
    entrypoint = f"`entrypoint: {{{kind}: {program}}}`"
    return entrypoint if not args else f"{entrypoint} and `args: [{', '.join(map(_quote, args))}]`"


def _quote(word: str) -> str:
    return word if re.fullmatch(r"[\w./=+-]+", word) else json.dumps(word)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quote
        return text.split()
