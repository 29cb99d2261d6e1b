"""`command` of a job: the command line of another launcher, in place of entrypoint, arguments, nodes and ranks.

No shell runs it, and no launcher: fsdpctl starts torchrun itself. Its words become keys of the job, before the job is
validated; what cannot become one is a problem of the file, or a notice where the run is the same without it.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from fsdpctl.other_launchers.draft import Draft, Program
from fsdpctl.other_launchers.launcher_options.accelerate import ConfigError, ReadConfig
from fsdpctl.other_launchers.launcher_options.read import carry_launch, options_of
from fsdpctl.other_launchers.rendezvous import check_rendezvous
from fsdpctl.other_launchers.shell.batch_options import BatchOptions
from fsdpctl.other_launchers.shell.commands import Launch, find_launch
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
from fsdpctl.other_launchers.shell.surroundings import carry_surroundings, tasks_per_node
from fsdpctl.schema.problems import KeyPath, LocatedProblem, Location, shorten, show
from fsdpctl.schema.yaml_tree import YamlDocument

COMMAND = "command"
_PATH: KeyPath = (COMMAND,)
_ONE_KEY = ("entrypoint", "args")
"""Keys that the command replaces."""
_CONTINUED = re.compile(r"(?<=\s)\\\s+")
"""A backslash at the end of a line, which YAML may have joined with the next one."""
_LAUNCHERS = "torchrun, python -m torch.distributed.run, accelerate launch, deepspeed or python"


class _WrongCommand(ValueError):
    """The text is no command that starts a Python program."""


def expand_command(document: YamlDocument, read_config: ReadConfig) -> None:
    """Replace `command` by the keys that it means; what is wrong with it is added to the problems of the document."""
    given, location = document.tree.pop(COMMAND, None), document.locate(_PATH)
    if given is None:
        return
    if location.line is None:  # an option, which replaces what the file has
        for key in _ONE_KEY:
            document.tree.pop(key, None)
    draft = Draft(location.source, makes_profile=False)
    _know_world(document, draft)
    try:
        launch = _find(_statement(given, document, location))
        _carry(draft, launch, location, read_config)
    except (_WrongCommand, ConfigError) as error:
        draft.problem(location, (), str(error))
    _report(document, draft, location)
    for parts in (document.locations, document.written):
        for path in [path for path in parts if path[:1] == _PATH]:
            del parts[path]
    _place(document, draft, location)


def _know_world(document: YamlDocument, draft: Draft) -> None:
    """Let the numbers of the job decide what the command leaves open, without a line: `_place` compares them."""
    for key in ("nodes", "procs_per_node"):
        if isinstance(value := document.tree.get(key), int):
            draft.job[key] = value


def _statement(given: Any, document: YamlDocument, location: Location) -> Statement:
    line = location.line or 1
    if isinstance(given, list) and given and all(isinstance(word, str | int | float) for word in given):
        words = [document.written.get((COMMAND, place), str(word)) for place, word in enumerate(given)]
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
    tasks = tasks_per_node(launch) or options.tasks_per_node
    carry_launch(draft, launch, location, gpus=options.gpus, tasks=tasks, read_config=read_config)
    draft.job.pop("name", None)  # of srun: the job has its own


def _report(document: YamlDocument, draft: Draft, location: Location) -> None:
    """Add what must change to the problems, all else to the notices."""
    for problem in draft.problems:
        whole = ": ".join([*map(str, problem.path), problem.text])
        document.problems.append(LocatedProblem(problem.location, _PATH, whole))
    for note in draft.notes[Program.OWN]:
        found = LocatedProblem(note.location, _PATH, f"{note.key}: {note.text}")
        (document.problems if note.must_change else document.notices).append(found)
    for name in draft.profile.pop("pass_env", ()):
        text = f"{name}: a secret does not belong into a file: remove it, and write `pass_env: [{name}]` in the profile"
        document.problems.append(LocatedProblem(location, _PATH, text))
    for key, value in _of_profile(draft.profile):
        text = f"{key}: {show(value)} is for the profile: it is not set by a job"
        document.notices.append(LocatedProblem(location, _PATH, text))


def _of_profile(profile: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the keys of a profile that the command has, by their names there."""
    backend = profile.get("backend")
    inner = backend.items() if isinstance(backend, dict) else ()
    flat = [(key, value) for key, value in profile.items() if key != "backend"]
    flat += [(f"backend.{key}", value) for key, value in inner if key != "kind"]
    return [pair for pair in flat if pair != ("rendezvous", "static")]


def _place(document: YamlDocument, draft: Draft, location: Location) -> None:
    """Set the keys in the document. Those of the job itself stay, and must not contradict the command."""
    tree, found = document.tree, {**draft.job}
    found.setdefault("entrypoint", {"script": "train.py"})  # of a wrong command: other problems are found all the same
    env = {**draft.env, **found.pop("env", {})}
    for key in _ONE_KEY:
        place = document.locate((key,))
        if key in tree and place.line is not None:
            text = "`command` has the program and its arguments: remove one of the two"
            document.problems.append(LocatedProblem(place, (key,), text))
    for key, value in found.items():
        source = draft.job_locations.get((key,), location)
        if tree.get(key) is None:
            tree[key] = value
            document.locations[key,] = source
            document.locations |= {(key, inner): source for inner in (value if isinstance(value, dict) else ())}
        elif tree[key] != value and key not in _ONE_KEY:
            _compare(document, key, value, source, is_of_command=source == location)
    if env and isinstance(tree.get("env", {}), dict):
        tree["env"] = {**env, **(tree.get("env") or {})}
        document.locations |= {("env", name): location for name in env if ("env", name) not in document.locations}
        document.locations.setdefault(("env",), location)


def _compare(document: YamlDocument, key: str, value: Any, source: Location, *, is_of_command: bool) -> None:
    """Report a number of the command that is another one in the job; an option of fsdpctl replaces both."""
    place = document.locate((key,))
    if place.line is None:  # an option that replaces what the command has
        return
    if source.line is None:
        document.tree[key] = value
        document.locations[key,] = source
        return
    text = f"{show(document.tree[key])}, but {source} has {show(value)}"
    if is_of_command:
        document.problems.append(LocatedProblem(place, (key,), f"{text} by its command: keep one of them"))
    else:
        document.notices.append(LocatedProblem(place, (key,), f"{text}: that of the job counts"))
