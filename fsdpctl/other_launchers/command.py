"""`command` of a job: the command line of another launcher, in place of entrypoint, arguments, nodes and ranks.

No shell runs it, and no launcher: fsdpctl starts torchrun itself. Its words become keys of the job, before the job is
validated; what cannot become one is a problem of the file, or a notice where the run is the same without it.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from fsdpctl.other_launchers.command_keys import COMMAND_PATH, REPLACED, place_keys, report
from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.launcher_options.accelerate import ConfigError, ReadConfig
from fsdpctl.other_launchers.launcher_options.read import carry_launch, options_of
from fsdpctl.other_launchers.rendezvous import check_rendezvous
from fsdpctl.other_launchers.shell.batch_options import BatchOptions
from fsdpctl.other_launchers.shell.commands import Launch, Launcher, find_launch
from fsdpctl.other_launchers.shell.exports import carry_variable
from fsdpctl.other_launchers.shell.lines import ShellError
from fsdpctl.other_launchers.shell.statements import (
    LITERAL_BACKTICK,
    LITERAL_DOLLAR,
    Statement,
    assigned,
    find_operator,
    plain,
    split_statements,
)
from fsdpctl.other_launchers.shell.surroundings import carry_surroundings
from fsdpctl.schema.problems import Location, shorten, show
from fsdpctl.schema.yaml_tree import YamlDocument

_CONTINUED = re.compile(r"(?<=\s)\\\s+")
"""A backslash at the end of a line, which YAML may have joined with the next one."""
_LAUNCHERS = "torchrun, python -m torch.distributed.run, accelerate launch, deepspeed or python"


class _WrongCommand(ValueError):
    """The text is no command that starts a Python program."""


def expand_command(document: YamlDocument, read_config: ReadConfig) -> None:
    """Replace `command` by the keys that it means; what is wrong with it is added to the problems of the document."""
    given, location = document.tree.pop(COMMAND_PATH[0], None), document.locate(COMMAND_PATH)
    if given is None:
        return
    if location.line is None:  # an option, which replaces what the file has
        for key in REPLACED:
            document.tree.pop(key, None)
    draft = Draft(location.source, makes_profile=False)
    _know_world(document, draft)
    try:
        launch = _find(_statement(given, document, location))
        _carry(draft, launch, location, read_config)
    except (_WrongCommand, ConfigError) as error:
        draft.problem(location, (), str(error))
    report(document, draft, location)
    for parts in (document.locations, document.written):
        for path in [path for path in parts if path[:1] == COMMAND_PATH]:
            del parts[path]
    place_keys(document, draft, location)


def _know_world(document: YamlDocument, draft: Draft) -> None:
    """Let the numbers of the job decide what the command leaves open, without a line: `place_keys` compares them."""
    for key in ("nodes", "procs_per_node"):
        if isinstance(value := document.tree.get(key), int):
            draft.job[key] = value


def _statement(given: Any, document: YamlDocument, location: Location) -> Statement:
    line = location.line or 1
    if isinstance(given, list) and given and all(isinstance(word, str | int | float) for word in given):
        words = [document.written.get((*COMMAND_PATH, place), str(word)) for place, word in enumerate(given)]
        return Statement(line, tuple(_literal(word) for word in words))
    if not isinstance(given, str) or not given.strip():
        raise _WrongCommand(f"must be text, or a list of words, got {show(given)}")
    text = _CONTINUED.sub(" ", given.strip())
    if "\n" in text:
        raise _WrongCommand("has several lines: one command, with a backslash at the end of each line but the last")
    try:
        if (operator := find_operator(text, line)) is not None:
            raise _WrongCommand(f"{operator} is for a shell, and no shell reads it: {_instead_of(operator)}")
        return split_statements(text, line)[0]
    except ShellError as error:
        raise _WrongCommand(str(error)) from None


def _instead_of(operator: str) -> str:
    if operator == "&":
        return "leave it away, as `submit` returns at once"
    if operator == "|" or ">" in operator:
        return "leave it away, as logs of all ranks are in the run directory: `fsdpctl logs`"
    return "write one command; `fsdpctl jobs import FILE` reads a whole script"


def _literal(word: str) -> str:
    """Return a word of a list, in which nothing is for a shell."""
    return word.replace("$", LITERAL_DOLLAR).replace("`", LITERAL_BACKTICK)


def _find(statement: Statement) -> Launch:
    try:
        launch = find_launch(statement, is_command=True)
    except ShellError as error:
        raise _WrongCommand(str(error)) from None
    if launch is None:
        raise _WrongCommand(explain_no_launch(list(map(plain, statement.words))))
    if launch.before:
        first = shorten(shlex.join(map(plain, launch.before[0].words)))
        raise _WrongCommand(f"runs `{first}` first, in a shell: `setup` of the profile has lines that run before")
    return launch


def explain_no_launch(words: list[str]) -> str:
    """Return why words start no Python program, and what does."""
    program = words[0] if words else ""
    script = next((word for word in words if word.endswith((".sh", ".sbatch", ".slurm"))), "")
    if program.endswith(".py"):
        return f"a script is started by Python: {shlex.join(['python', *words])}"
    if script:
        return f"{shorten(script)} is a script of a shell: `fsdpctl jobs import {shlex.quote(script)}` reads it"
    return f"{shorten(program)} starts no Python program here: it must be {_LAUNCHERS}, also behind srun, env or uv run"


def _carry(draft: Draft, launch: Launch, location: Location, read_config: ReadConfig) -> None:
    for variable, text in launch.env:
        carry_variable(draft, variable, assigned(text), location)
    options = BatchOptions(draft)
    for name, value in launch.srun.options if launch.srun is not None else ():
        options.carry(name, value, location)
    options.finish(location)
    carry_surroundings(draft, launch, location)
    check_rendezvous(draft, options_of(launch), location)
    if launch.launcher is Launcher.SRUN:
        options.place_tasks(location)
    carry_launch(draft, launch, location, gpus=options.gpus, tasks=options.tasks_per_node, read_config=read_config)
    options.note_nodes()
    draft.job.pop("name", None)  # of srun: the job has its own
