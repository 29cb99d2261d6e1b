"""Render docs/commands.md from the Typer app."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from docs.tables import FOOT, row
from fsdpctl.cli.app import build_app

INTRO = """\
# Commands

All commands, arguments and options. `fsdpctl COMMAND --help` prints the same text. Without `RUN` a command takes the
newest run. Data goes to stdout, everything else to stderr. The exit codes are in
[run-directory.md](run-directory.md#exit-codes), the keys of a job file in [jobs.md](jobs.md).
"""


def render() -> str:
    """Return the page: a section for each command, in the order of `fsdpctl --help`."""
    sections = [section(name, command) for name, command in commands("fsdpctl", typer.main.get_command(build_app()))]
    return "\n\n".join(part.strip() for part in (INTRO, *sections, FOOT)) + "\n"


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield a command and all commands below it, with their full names. A group without options is left out."""
    if command.params:
        yield name, command
    for inner_name, inner in getattr(command, "commands", {}).items():
        yield from commands(f"{name} {inner_name}", inner)


def section(name: str, command: Any) -> str:
    rows = [row(f"`{spelling(param)}`", default(param), one_line(param.help)) for param in command.params]
    table = ["| argument or option | default | description |", "| --- | --- | --- |", *rows]
    return "\n".join([f"## `{name}`", "", one_line(command.help), "", *table])


def spelling(param: Any) -> str:
    """Return the name of an argument, or all names of an option and a placeholder for its value."""
    if not param.opts[0].startswith("-"):
        return str(param.name).upper()
    names = ", ".join(sorted(param.opts, key=len, reverse=True))
    return names if param.is_flag else f"{names} {param.metavar or param.name.upper()}"


def default(param: Any) -> str:
    if param.required:
        return "required"
    return "" if param.default in (None, False) else f"`{param.default}`"


def one_line(text: str | None) -> str:
    return " ".join((text or "").split())
