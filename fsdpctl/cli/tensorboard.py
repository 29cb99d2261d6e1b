"""`fsdpctl tensorboard`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.complete import complete_run
from fsdpctl.cli.output import log, print_json
from fsdpctl.errors import FsdpctlError, UsageError, install_hint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsdpctl.contract.paths import RunPaths

MODULE = "tensorboard.main"


def tensorboard(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Run ids, prefixes of them, or names of jobs; default: the newest run.",
            metavar="[RUN]...",
            autocompletion=complete_run,
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port that it listens at; 0: any.")] = 6006,
    host: Annotated[str, typer.Option("--host", help="Address that it listens at.")] = "localhost",
    as_json: Annotated[bool, typer.Option("--json", help="Print the command as JSON, instead of running it.")] = False,
) -> None:
    """Start TensorBoard on the metrics of runs. Ctrl-C ends it."""
    from fsdpctl.cli.shapes.runs import TensorBoard
    from fsdpctl.runs.find import find_runs

    found = find_runs(runs or [])
    directories = {run.root.name: str(run.tensorboard) for run in found if has_events(run)}
    if missing := [run.root.name for run in found if run.root.name not in directories]:
        message = f"no metrics for TensorBoard: {', '.join(missing)}"
        if not directories:
            raise UsageError(message, hint="report_to: [tensorboard] in the job of your own script writes them")
        log(f"warning: {message}")
    argv = [_find_python(), "-P", "-m", MODULE, *describe(directories), "--host", host, "--port", str(port)]
    if as_json:
        print_json(TensorBoard(tuple(argv)))
        return
    os.execv(argv[0], argv)


def has_events(run: RunPaths) -> bool:
    """Return whether a run has files of TensorBoard."""
    return any(run.tensorboard.glob("**/*tfevents*"))


def describe(directories: Mapping[str, str]) -> list[str]:
    """Return the options that name these directories. Raise UsageError for names that TensorBoard would split."""
    if len(directories) == 1:
        return ["--logdir", *directories.values()]
    if wrong := [path for path in directories.values() if "," in path or ":" in path]:
        raise UsageError(f"TensorBoard cannot show several runs with a comma or colon in a path: {wrong[0]}")
    return ["--logdir_spec", ",".join(f"{name}:{path}" for name, path in directories.items())]


def _find_python() -> str:
    """Return a Python that has TensorBoard: this one. Raise FsdpctlError."""
    from importlib.util import find_spec

    if find_spec("tensorboard") is None:
        raise FsdpctlError("the package tensorboard is missing", hint=install_hint("train"))
    return sys.executable
