"""The Typer app and the one error boundary.

Command modules import only the standard library and Typer at module level: `fsdpctl --help` is measured by a test.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer import TyperException

from fsdpctl import __version__
from fsdpctl.cli import bench, checkpoints, data, jobs, nodes, notify, profiles, runs
from fsdpctl.cli.compare import compare
from fsdpctl.cli.complete import words_before_cursor
from fsdpctl.cli.doctor import doctor
from fsdpctl.cli.error_report import problems_of, report_error, wants_json
from fsdpctl.cli.estimate import estimate
from fsdpctl.cli.events import events
from fsdpctl.cli.explain import explain
from fsdpctl.cli.gc import gc
from fsdpctl.cli.hold import hold, holds, release
from fsdpctl.cli.logs import logs
from fsdpctl.cli.ls import ls
from fsdpctl.cli.metrics import metrics
from fsdpctl.cli.output import BrokenPipe, log
from fsdpctl.cli.report import report
from fsdpctl.cli.resume import resume
from fsdpctl.cli.shell import shell
from fsdpctl.cli.stacks import stacks
from fsdpctl.cli.status import status
from fsdpctl.cli.stop import cancel, stop
from fsdpctl.cli.submit import submit
from fsdpctl.cli.supervise import supervise
from fsdpctl.cli.sweep import sweep
from fsdpctl.cli.tensorboard import tensorboard
from fsdpctl.cli.top import top
from fsdpctl.cli.usage import usage
from fsdpctl.contract import CliExit
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.files import FULL_DISK, NOT_THERE, PASSING
from fsdpctl.errors import DamagedRegistryWarning, FsdpctlError

_SITE_ERRORS = (
    *(*FULL_DISK, *NOT_THERE, *PASSING),
    *(errno.EIO, errno.EROFS, errno.EUCLEAN, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP),
    *(errno.ENAMETOOLONG, errno.EFBIG),
)
"""Errors of a disk, a file server, a directory or a limit, not of a bug."""

COMMANDS = {
    command.__name__: command
    for command in (
        *(submit, status, ls, top, events, logs, stacks, explain, stop, resume, cancel, shell, doctor, supervise),
        *(estimate, sweep, metrics, tensorboard, compare, report, usage, gc, hold, holds, release),
    )
}
GROUPS = {
    "jobs": jobs.app,
    "profiles": profiles.app,
    "data": data.app,
    "checkpoints": checkpoints.app,
    "bench": bench.app,
    "notify": notify.app,
    "runs": runs.app,
    "nodes": nodes.app,
}


def build_app(name: str = "") -> typer.Typer:
    """Return the app with only the command or group `name`; with all of them for any other name.

    Typer builds the options of all of its commands before it parses the arguments.
    """
    app = _empty_app()
    is_known = name in COMMANDS or name in GROUPS
    for known, command in COMMANDS.items():
        if known == name or not is_known:
            app.command()(command)
    for known, group in GROUPS.items():
        if known == name or not is_known:
            app.add_typer(group, name=known)
    return app


def build_list() -> typer.Typer:
    """Return an app that prints the same `--help`, without the options of commands: half of its time."""
    app = _empty_app()
    texts = {name: command.__doc__ for name, command in COMMANDS.items()}
    texts |= {name: group.info.help for name, group in GROUPS.items()}
    for name, text in texts.items():
        app.command(name, help=text)(lambda: None)
    return app


def _empty_app() -> typer.Typer:
    app = typer.Typer(
        name="fsdpctl",
        help="Launch, watch, stop and resume multi-node PyTorch FSDP runs: locally, through Slurm or over SSH.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fsdpctl {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


_show_warning = warnings.showwarning


def main() -> None:
    """Run the command line: expected failures end as one message and a fixed exit code, never as a traceback."""
    warnings.showwarning = _log_warning  # type: ignore[assignment]
    os.umask(0o077)  # files of a run are private, whatever the shell's umask is
    try:
        _run()
    except BrokenPipe:
        sys.exit(CliExit.BROKEN_PIPE)


def _log_warning(message: Warning | str, category: type[Warning], *where: Any) -> None:
    if issubclass(category, DamagedRegistryWarning):
        log(f"warning: {message}")
    else:
        _show_warning(message, category, *where)


def _run() -> None:
    try:
        completes = "_FSDPCTL_COMPLETE" in os.environ
        words = words_before_cursor(os.environ) if completes else sys.argv[1:]
        only_lists = words in ([], ["--help"], ["-h"]) and not completes
        app = build_list() if only_lists else build_app(*words[:1])
        if wants_json(sys.argv):  # Typer would print a wrong option as text
            sys.exit(app(standalone_mode=False))
        app()
    except TyperException as error:  # a wrong option
        report_error(CliExit.USAGE, error.format_message())
        sys.exit(CliExit.USAGE)
    except typer.Abort:
        sys.exit(CliExit.FAILED)
    except FsdpctlError as error:
        report_error(error.exit_code, error.message, error.hint, problems_of(error))
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in _SITE_ERRORS:
            _report_bug(error)
        if not _has_directory():
            report_error(CliExit.FAILED, "the current directory does not exist any more", "cd to another one")
            sys.exit(CliExit.FAILED)
        paths = " -> ".join(str(name) for name in (error.filename, error.filename2) if name)
        hint = None
        if error.errno == errno.EMFILE:
            hint = "`ulimit -n 4096` in this shell raises the limit of open files"
        elif sys.argv[1:2] not in (["jobs"], ["profiles"], ["data"]):
            hint = "runs are stored in the profile's runs_root, or in $FSDPCTL_HOME (default ~/.local/state/fsdpctl)"
        report_error(CliExit.FAILED, f"{error.strerror}" + (f": {paths}" if paths else ""), hint)
        sys.exit(CliExit.FAILED)
    except CodecError as error:
        report_error(CliExit.FAILED, str(error), "this file is damaged, or of another version of fsdpctl")
        sys.exit(CliExit.FAILED)
    except Exception as error:
        _report_bug(error)


def _has_directory() -> bool:
    try:
        return Path.cwd().is_dir()
    except OSError:
        return False


def _report_bug(error: Exception) -> NoReturn:
    from fsdpctl.cli.crash import write_report

    hint = f"the traceback is in {write_report()}; please report it"
    report_error(CliExit.BUG, f"a bug in fsdpctl: {type(error).__name__}: {error}", hint)
    sys.exit(CliExit.BUG)
