"""Parts of shell scripts. A word is quoted here and nowhere else, unless it is an expression of the shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from fsdpctl.exporters.exportable import CONFIG, Exportable


class Expression(str):
    """Text that the shell evaluates, such as "$run/trainer.json", with the quotes that it needs."""

    __slots__ = ()


RUN_CONFIG = Expression(f'"$run/{CONFIG}"')
"""The configuration of the bundled trainer, in the directory that the script makes."""


def join(words: Iterable[str]) -> str:
    """Return a command as a line of a shell script."""
    return " ".join(word if isinstance(word, Expression) else shlex.quote(word) for word in words)


def exports(env: Mapping[str, str]) -> list[str]:
    """Return the lines that set variables."""
    return [f"export {name}={shlex.quote(value)}" for name, value in env.items()]


def require_secrets(names: Iterable[str]) -> list[str]:
    """Return lines that end a script whose environment does not have a secret."""
    return [f': "${{{name}:?must be set}}"' for name in names]


def write_config(export: Exportable, run: str) -> list[str]:
    """Return the lines that make the directory of the run, an expression, and write the configuration there."""
    config = export.trainer_config
    if config is None:
        return []
    text = f"printf '%s\\n' {shlex.quote(config)} >{RUN_CONFIG}"
    return [f"run={run}", 'mkdir -p "$run"', text]
