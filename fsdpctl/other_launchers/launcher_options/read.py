"""Carry a launch command over: the options of its launcher, and the program with its arguments."""

from __future__ import annotations

from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.launcher_options import accelerate, deepspeed, plain_python, torchrun
from fsdpctl.other_launchers.launcher_options.accelerate import ReadConfig
from fsdpctl.other_launchers.shell.commands import Launch, Launcher
from fsdpctl.other_launchers.shell.options import Parsed, parse_options
from fsdpctl.schema.problems import Location

_SYNTAX = {
    Launcher.TORCHRUN: torchrun.SYNTAX,
    Launcher.ACCELERATE: accelerate.SYNTAX,
    Launcher.DEEPSPEED: deepspeed.SYNTAX,
}


def options_of(launch: Launch) -> Parsed:
    """Return the options of the launcher; a program that no launcher starts has none of them."""
    if launch.launcher in _SYNTAX:
        return parse_options(launch.words, _SYNTAX[launch.launcher])
    return Parsed((), launch.words)


def carry_launch(
    draft: Draft,
    launch: Launch,
    location: Location,
    *,
    gpus: int | None = None,
    tasks: int | None = None,
    read_config: ReadConfig | None = None,
) -> None:
    """Set entrypoint, arguments and ranks. `gpus`: of a node; `tasks`: what srun starts on one, if that is known.

    `read_config` None: a configuration that the command names is not opened.
    """
    parsed = options_of(launch)
    match launch.launcher:
        case Launcher.TORCHRUN:
            torchrun.carry(draft, launch, parsed, location, gpus)
        case Launcher.ACCELERATE:
            accelerate.carry(draft, launch, parsed, location, read_config)
        case Launcher.DEEPSPEED:
            deepspeed.carry(draft, launch, parsed, location, gpus)
        case Launcher.SRUN:
            plain_python.carry(draft, launch, location, tasks or gpus)
        case Launcher.PYTHON:
            plain_python.carry(draft, launch, location, None)
