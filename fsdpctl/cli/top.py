"""`fsdpctl top`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.options import Json, Run
from fsdpctl.cli.output import log, print_json, write

if TYPE_CHECKING:
    from rich.console import ScreenContext

    from fsdpctl.cli.keys import Keyboard
    from fsdpctl.cli.top_screen import View
    from fsdpctl.verbs.top import TopReader

EVERY_S = 2.0
_ANY_WIDTH = 10_000


def top(
    run: Run = None,
    once: Annotated[bool, typer.Option("--once", help="Print the present state as lines and exit.")] = False,
    as_json: Json = False,
) -> None:
    """Show runs, their nodes, ranks and GPUs live; without RUN all that are alive. In a pipe it prints once."""
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.top import TopReader

    paths = find_run(run) if run is not None else None
    reader = TopReader(paths)
    if as_json:
        print_json(reader.read())
    elif once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print_once(reader)
    else:
        _show(reader)


def _print_once(reader: TopReader) -> None:
    from fsdpctl.cli import terminal
    from fsdpctl.cli.top_rows import make_rows
    from fsdpctl.cli.top_screen import describe_run, table

    runs = reader.read()
    columns = terminal.room() if sys.stdout.isatty() else _ANY_WIDTH
    if not runs:
        log("there are no runs yet")
        return
    lines = table(make_rows(runs, ()), columns)
    for one in runs:
        lines += ["", *describe_run(one, columns)]
    for line in lines:
        write(terminal.paint(line, sys.stdout))


def _show(reader: TopReader) -> None:
    """Draw until `q` or Ctrl-C; a command that a key starts has the terminal for its time."""
    from rich.console import Console

    from fsdpctl.cli.keys import Keyboard
    from fsdpctl.cli.top_screen import View

    console, view = Console(), View()
    with suppress(KeyboardInterrupt):
        while True:
            with console.screen() as screen, Keyboard() as keyboard:
                words = _draw_until_command(reader, view, screen, keyboard)
            if not words:
                return
            _run_command(words)


def _draw_until_command(reader: TopReader, view: View, screen: ScreenContext, keyboard: Keyboard) -> list[str]:
    """Return the words of the command that the user asks for; none to quit."""
    from rich.text import Text

    from fsdpctl.cli.terminal import paint
    from fsdpctl.cli.top_screen import draw, press

    runs, shown, next_read = [], [""], 0.0
    while True:
        if time.monotonic() >= next_read:
            runs, next_read = reader.read(), time.monotonic() + EVERY_S
        size = shutil.get_terminal_size()
        if (lines := draw(runs, view, size.columns, size.lines)) != shown:
            screen.update(Text.from_ansi("\n".join(paint(line, sys.stdout) for line in lines)))
            shown = lines
        key = keyboard.wait(max(0.0, next_read - time.monotonic()))
        if key == "q" and not view.asks:
            return []
        if words := press(view, runs, key):
            return words


def _run_command(words: Sequence[str]) -> None:
    """Run a command of fsdpctl in the terminal, and wait for a key after it: what it printed is to be read."""
    from fsdpctl.cli.keys import Keyboard

    with subprocess.Popen([sys.executable, "-P", "-m", "fsdpctl", *words]) as process:
        while process.poll() is None:
            with suppress(KeyboardInterrupt):  # it gets Ctrl-C, too
                process.wait()
    log("any key returns")
    with Keyboard() as keyboard, suppress(KeyboardInterrupt):
        while not keyboard.wait(3600.0):
            pass
