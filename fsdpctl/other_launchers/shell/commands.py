"""Find the command that starts the ranks in a statement: behind srun, env, numactl, bash -c and containers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath

from fsdpctl.other_launchers.shell import batch_options
from fsdpctl.other_launchers.shell.options import Parsed, Syntax, parse_options
from fsdpctl.other_launchers.shell.statements import Statement, parse_script, plain
from fsdpctl.other_launchers.shell.variables import ASSIGNMENT

_MAX_NESTED = 5
_CONTAINER = Syntax(
    short={"-B": "bind", "-c": "contain", "-e": "cleanenv", "-C": "containall", "-H": "home", "-W": "workdir"},
    flags=("nv", "rocm", "contain", "cleanenv", "containall", "no-home", "writable-tmpfs", "writable", "fakeroot"),
)
_BINDING = Syntax(
    short={"-m": "membind", "-N": "cpunodebind", "-c": "cpu-list", "-l": "localalloc"}, flags=("localalloc",)
)
_ENVIRONMENT = Syntax(
    short={"-n": "name", "-p": "prefix", "-q": "quiet", "-v": "verbose"},
    flags=(
        *("quiet", "verbose", "frozen", "locked", "no-sync", "isolated", "active", "offline", "no-project", "no-dev"),
        *("all-extras", "all-groups", "no-env-file", "no-capture-output", "live-stream"),
    ),
)
_RUNNERS = ("uv", "conda", "mamba", "micromamba", "poetry", "pdm", "pixi")
_TIMEOUT = Syntax(short={"-k": "kill-after", "-s": "signal"}, flags=("foreground", "preserve-status", "verbose"))
_DISTRIBUTED = ("torch.distributed.run", "torch.distributed.launch")


class Launcher(StrEnum):
    """What starts the ranks: a launcher, or Python itself, by srun once for each rank, or for fsdpctl to start."""

    TORCHRUN = "torchrun"
    ACCELERATE = "accelerate launch"
    DEEPSPEED = "deepspeed"
    SRUN = "srun"
    PYTHON = "python"


@dataclass(frozen=True)
class Launch:
    """A command that starts ranks, taken apart. `words` begins with the launcher's first option."""

    line: int
    launcher: Launcher
    words: tuple[str, ...]
    python: str | None = None  # the interpreter, as it is written
    env: tuple[tuple[str, str], ...] = ()  # assignments before the command
    srun: Parsed | None = None
    container: Parsed | None = None  # of apptainer; the first word of its rest is the image
    folder: str = ""  # where `cd` has gone before
    before: tuple[Statement, ...] = ()  # what `bash -c` runs first, in the same process
    notes: tuple[tuple[str, str], ...] = ()  # what comes before, and why it does not carry over


def find_launch(
    statement: Statement, depth: int = 0, srun: Parsed | None = None, *, is_command: bool = False
) -> Launch | None:
    """Return the launch command of a statement; None if it starts no ranks. `srun`: what starts the statement.

    `is_command`: it is the command of a job, in which Python alone starts a rank, too.
    """
    launch = Launch(statement.line, Launcher.TORCHRUN, (), srun=srun)
    words: Sequence[str] = statement.words
    while words:
        program = PurePosixPath(words[0]).name
        if found := ASSIGNMENT.fullmatch(words[0]):
            launch = replace(launch, env=(*launch.env, (found[1], found[2])))
            words = words[1:]
        elif program in ("exec", "time", "nohup", "command", "env", "then", "do", "else", "!", "{"):
            words = words[1:]
        elif program == "srun":
            parsed = parse_options(words[1:], batch_options.SYNTAX)
            launch, words = replace(launch, srun=parsed), parsed.rest
        elif program in ("numactl", "taskset", "stdbuf"):
            launch = replace(launch, notes=(*launch.notes, (program, "ranks are started by torchrun alone")))
            words = parse_options(words[1:], _BINDING).rest
        elif program in _RUNNERS and words[1:2] and words[1] == "run":
            text = "name the environment as `environment` of the profile"
            launch = replace(launch, notes=(*launch.notes, (f"{program} run", text)))
            words = parse_options(words[2:], _ENVIRONMENT).rest
        elif program == "timeout":
            launch = replace(launch, notes=(*launch.notes, (program, "`time_limit` of the job ends a run")))
            words = parse_options(words[1:], _TIMEOUT).rest[1:]
        elif program in ("apptainer", "singularity") and len(words) > 2 and words[1] in ("exec", "run"):
            parsed = parse_options(words[2:], _CONTAINER)
            launch, words = replace(launch, container=parsed), parsed.rest[1:]
        elif program in ("bash", "sh") and len(words) > 2 and re.fullmatch("-[a-z]*c", words[1]):
            return _find_inside(launch, statement.line, words[2], words[4:], depth, is_command=is_command)
        else:
            return _classify(launch, program, words, is_command=is_command)
    return None


def _find_inside(
    outer: Launch, line: int, text: str, args: Sequence[str], depth: int, *, is_command: bool
) -> Launch | None:
    """Return the launch command in the text of `bash -c`, in which `$@` are the arguments behind it."""
    if depth >= _MAX_NESTED:
        return None
    before: list[Statement] = []
    for statement in parse_script(plain(text)).statements:  # what is literal to the outer shell is not to this one
        words = [inner for word in statement.words for inner in (args if plain(word) == "$@" else [word])]
        inner = find_launch(Statement(line, tuple(words)), depth + 1, outer.srun, is_command=is_command)
        if inner is not None:
            return replace(
                inner,
                env=(*outer.env, *inner.env),
                before=(*before, *inner.before),
                srun=inner.srun or outer.srun,
                container=inner.container or outer.container,
                notes=(*outer.notes, *inner.notes),
            )
        before.append(Statement(line, statement.words))
    return None


def _classify(launch: Launch, program: str, words: Sequence[str], *, is_command: bool) -> Launch | None:
    if program == "torchrun":
        return replace(launch, words=tuple(words[1:]), python=_python_beside(words[0]))
    if program == "accelerate" and words[1:2] and words[1] == "launch":
        return replace(launch, launcher=Launcher.ACCELERATE, words=tuple(words[2:]), python=_python_beside(words[0]))
    if program == "accelerate-launch":
        return replace(launch, launcher=Launcher.ACCELERATE, words=tuple(words[1:]), python=_python_beside(words[0]))
    if program == "deepspeed":
        return replace(launch, launcher=Launcher.DEEPSPEED, words=tuple(words[1:]), python=_python_beside(words[0]))
    if re.fullmatch(r"python([0-9.]*)", program):
        rest = list(itertools.dropwhile(lambda word: word in ("-u", "-O", "-s", "-E"), words[1:]))
        launch = replace(launch, python=words[0] if "/" in words[0] else None)
        if len(rest) > 1 and rest[0] == "-m" and rest[1] in _DISTRIBUTED:
            return replace(launch, words=tuple(rest[2:]))
        if len(rest) > 2 and rest[:2] == ["-m", "accelerate.commands.launch"]:
            return replace(launch, launcher=Launcher.ACCELERATE, words=tuple(rest[2:]))
        if rest and rest[0] != "-c" and (launch.srun is not None or is_command):
            return replace(launch, launcher=Launcher.SRUN if launch.srun else Launcher.PYTHON, words=tuple(rest))
    return None


def _python_beside(program: str) -> str | None:
    """Return the interpreter that belongs to a program with a path: in the same folder."""
    return str(PurePosixPath(program).with_name("python")) if "/" in program else None
