"""`fsdpctl shell`."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from fsdpctl.cli.options import Run
from fsdpctl.cli.output import print_json


def shell(
    run: Run = None,
    node: Annotated[int, typer.Option("--node", help="Node rank; default: the head.", show_default=False)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the command as JSON, and do not run it.")] = False,
) -> None:
    """Open a shell on a node of a run, in the directory and environment of its ranks."""
    from fsdpctl.cli.shapes.runs import Shell
    from fsdpctl.errors import LaunchError
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.shell import shell_command

    command = shell_command(find_run(run), node, is_terminal=sys.stdin.isatty())
    if as_json:
        print_json(Shell(tuple(command.argv)))
        return
    try:
        os.execvpe(command.argv[0], command.argv, command.env)
    except FileNotFoundError:
        raise LaunchError(f"{command.argv[0]} is not on the PATH of this machine") from None
