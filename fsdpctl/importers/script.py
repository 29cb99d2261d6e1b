"""Shell scripts with torchrun, `accelerate launch` or deepspeed, and batch scripts of Slurm, as text."""

from __future__ import annotations

import itertools
import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fsdpctl.contract import BUNDLED_TRAINER
from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.launcher_options.read import carry_launch
from fsdpctl.other_launchers.shell.batch_options import SYNTAX, BatchOptions
from fsdpctl.other_launchers.shell.commands import Launch, Launcher, find_launch
from fsdpctl.other_launchers.shell.exports import carry_variable
from fsdpctl.other_launchers.shell.lines import Line, ShellError
from fsdpctl.other_launchers.shell.options import parse_options
from fsdpctl.other_launchers.shell.statements import Script, Statement, assigned, parse_script, plain
from fsdpctl.other_launchers.shell.surroundings import carry_surroundings, tasks_per_node
from fsdpctl.other_launchers.shell.variables import (
    ASSIGNMENT,
    Variables,
    is_head_idiom,
    is_resolved,
)
from fsdpctl.schema.problems import Location, shorten

_MARKS = re.compile(
    r"^#!|^#SBATCH\s|\btorchrun\b|\btorch\.distributed\.(run|launch)\b|\baccelerate\s+launch\b"
    r"|^[ \t]*(srun|deepspeed)[ \t]+[^:\s]",
    re.MULTILINE,
)
_BEFORE_COMMANDS = ("then", "else", "do", "{", "!")
_OPENING, _ENDING = ("if", "for", "while", "until", "case"), ("fi", "done", "esac")
_SYNTAX_WORDS = {
    *(*_OPENING, *_ENDING),
    *("elif", "function", "}", "[", "[[", "test", ":", "true", "false"),
}
_HARMLESS = {
    *("set", "echo", "printf", "date", "hostname", "nvidia-smi", "wait", "pwd", "exit", "shopt", "trap", "env"),
    *("sleep", "which", "tee"),
}


def looks_like(text: str) -> bool:
    """Return whether a text is a shell script that starts ranks, or a batch script."""
    return _MARKS.search(text) is not None and not text.lstrip().startswith("{")


def read(text: str, draft: Draft) -> None:
    """Carry a whole script over."""
    if "\r\n" in text:
        line = text.count("\n", 0, text.index("\r\n")) + 1
        reason = "ends as on Windows (CR LF), which a shell does not read: read here as if converted"
        draft.note(Location(draft.source, line), "line end", reason)
    try:
        script = parse_script(text.replace("\r\n", "\n"))
    except ShellError as error:
        draft.problem(Location(draft.source, error.line), (), str(error))
        return
    reader = _ScriptReader(draft)
    reader.read_directives(script)
    reader.read_statements(script.statements)


def _trainer_config(words: Sequence[str]) -> dict[str, Any]:
    """Return the configuration that a `printf` of `jobs export` writes; empty for another one."""
    if len(words) != 3 or not words[2].startswith("{"):
        return {}
    try:
        tree = json.loads(plain(words[2]))
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) and "model" in tree else {}


class _ScriptReader:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.options = BatchOptions(draft)
        self.variables = Variables()
        self.exports: list[tuple[int, str, str]] = []
        self.launches: list[Launch] = []
        self.config: dict[str, Any] = {}  # of the bundled trainer, in a script by `jobs export`
        self.folders: dict[tuple[int, ...], str] = {}  # of each subshell that has changed it
        self.depth = 0  # conditions and loops that are open

    def at(self, line: int) -> Location:
        return Location(self.draft.source, line)

    def read_directives(self, script: Script) -> None:
        """Carry the #SBATCH lines over."""
        for line in script.late_directives:
            text = "sbatch reads no such line behind the first command"
            self.draft.note(self.at(line.number), "#SBATCH", text)
        options = [option for line in script.directives for option in self._directive(line)]
        for number, name, value in options:
            if value is not None and not is_resolved(value):
                self.draft.note(
                    self.at(number), f"--{name}", "sbatch fills in no variables, and neither does a profile"
                )
            else:
                self.options.carry(name, value, self.at(number))
        if options:
            self.options.finish(self.at(options[0][0]))
            self.draft.profile.setdefault("backend", {}).setdefault("kind", "slurm")
        self._know_slurm()

    def _directive(self, line: Line) -> Iterator[tuple[int, str, str | None]]:
        """Yield line, name and value of the options of one line."""
        number = line.number
        try:
            words = shlex.split(line.text, comments=True)
        except ValueError as error:
            self.draft.problem(self.at(number), ("#SBATCH",), f"cannot be split into words: {str(error).lower()}")
            return
        parsed = parse_options(words, SYNTAX)
        yield from ((number, name, value) for name, value in parsed.options)
        if parsed.rest:
            self.draft.problem(self.at(number), ("#SBATCH",), f"{shorten(parsed.rest[0])} is no option")

    def _know_slurm(self) -> None:
        """Give Slurm's variables the values that the batch options decide."""
        known = {
            "SLURM_NNODES": self.options.nodes,
            "SLURM_JOB_NUM_NODES": self.options.nodes,
            "SLURM_GPUS_PER_NODE": self.options.gpus,
            "SLURM_GPUS_ON_NODE": self.options.gpus,
            "SLURM_NTASKS_PER_NODE": self.options.tasks_per_node,
            "SLURM_CPUS_PER_TASK": self.options.cpus_per_task,
        }
        self.variables.known |= {name: str(value) for name, value in known.items() if value is not None}

    def read_statements(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            if launch := self._find(statement):
                for inner in launch.before:
                    self._other(inner)
                self.launches.append(replace(launch, folder=self._folder(statement.subshell)))
            else:
                self._other(statement)
        for line, name, value in self.exports:
            carry_variable(self.draft, name, value, self.at(line))
        self._launch()

    def _find(self, statement: Statement) -> Launch | None:
        """Return the launch command of a statement, with the variables filled in that are known there."""
        try:
            words = self.variables.expand(statement.words, statement.line)
            launch = find_launch(Statement(statement.line, words))
            if launch is not None:
                launch = replace(launch, words=self.variables.expand(launch.words, launch.line))
        except ShellError as error:
            self.draft.problem(self.at(error.line), (), str(error))
            return None
        if launch is not None:  # what the command is made of is no setting of the ranks
            used = self.variables.behind(statement.words)
            self.exports = [
                export for export in self.exports if export[1] not in used or re.fullmatch(r"[^\s$`]*", export[2])
            ]
        return launch

    def _other(self, statement: Statement) -> None:
        """Take what a statement sets up for the ranks; note what it does besides."""
        words = tuple(itertools.dropwhile(lambda word: word in _BEFORE_COMMANDS, statement.words)) or ("true",)
        program = words[0]
        self.depth += (program in _OPENING) - (program in _ENDING)
        if program in ("export", "declare", "readonly", "local"):
            for word in words[1:]:
                self._assign(statement.line, word, is_exported=program == "export" or "-x" in words)
        elif all(ASSIGNMENT.fullmatch(word) for word in words):
            for word in words:
                self._assign(statement.line, word, is_exported=False)
        elif program in ("module", "ml") and words[1:2] in (("load",), ("add",)):
            modules = self.draft.profile.setdefault("modules", [])
            modules += [plain(word) for word in words[2:] if is_resolved(word)]
        elif program == "module" or program == "ulimit":
            self.draft.profile.setdefault("setup", []).append(shlex.join(map(plain, words)))
        elif program == "cd" and self._enters(words[1:]):
            folder = posixpath.join(self._folder(statement.subshell), self._resolved(words[1]))
            self.folders[statement.subshell] = posixpath.normpath(folder)
        elif program == "printf" and (config := _trainer_config(words)):
            self.config = config
        elif program in ("source", ".") and words[1:2] != ("activate",):
            self._source(statement)
        elif "activate" in words[1:2] and program in ("conda", "mamba", "micromamba", "source", "."):
            self._activate(statement.line, words)
        elif program == "cd":
            self.folders[statement.subshell] = ""
            self._note_other(statement.line, words)
        elif program not in _SYNTAX_WORDS | _HARMLESS and is_resolved(program) and not is_head_idiom(" ".join(words)):
            self._note_other(statement.line, words)

    def _note_other(self, line: int, words: Sequence[str]) -> None:
        text = f"{shorten(plain(shlex.join(words)), 60)} does not run: only the ranks are started"
        self.draft.note(self.at(line), words[0] if words[0].isidentifier() else "", text)

    def _folder(self, subshell: tuple[int, ...]) -> str:
        """Return the folder of a subshell, below the one where the script begins; "" also where it is not known."""
        while subshell and subshell not in self.folders:
            subshell = subshell[:-1]  # it begins where the one around it is
        return self.folders.get(subshell, "")

    def _enters(self, words: Sequence[str]) -> bool:
        """Return whether `cd` with these words goes to a folder that is known from the text."""
        folder = self._resolved(words[0]) if len(words) == 1 else ""
        return self.depth == 0 and is_resolved(folder) and folder[:1] not in ("", "/", "-")

    def _resolved(self, word: str) -> str:
        return self.variables.resolve(word)

    def _source(self, statement: Statement) -> None:
        path = plain(statement.words[1]) if len(statement.words) > 1 else ""
        if path.startswith("/") and path.endswith("/bin/activate") and is_resolved(path):
            environment = {"kind": "venv", "path": path.removesuffix("/bin/activate")}
            self.draft.set("profile.environment", environment, self.at(statement.line))
        else:
            text = "a file of the shell is not read: name what it enters as `environment` of the profile"
            self.draft.note(self.at(statement.line), f"source {shorten(path)}", text)

    def _activate(self, line: int, words: Sequence[str]) -> None:
        name = plain(words[2]) if len(words) > 2 else "base"
        is_plain = is_resolved(name) and re.fullmatch(r"/?[\w.-]+(/[\w.-]+)*", name) and name[0] not in ".-"
        if is_plain and words[0] != "micromamba":  # whose shell hook differs
            key = "prefix" if name.startswith("/") else "name"
            self.draft.set("profile.environment", {"kind": "conda", key: name}, self.at(line))
            return
        text = f"write what {shorten(name)} is as `environment` of the profile: {{kind: conda, name: NAME}}"
        self.draft.note(self.at(line), shlex.join(map(plain, words[:2])), text)

    def _assign(self, line: int, word: str, *, is_exported: bool) -> None:
        found = ASSIGNMENT.fullmatch(word)
        if found is None:  # `export NAME` of an assignment before
            if is_exported and word in self.variables.known:
                self.exports.append((line, word, self.variables.known[word]))
            return
        name, value = found[1], assigned(found[2])
        if is_exported:
            if self.depth > 0:
                self.draft.note(self.at(line), name, "set under a condition or in a loop: taken as always set")
            self.exports.append((line, name, self.variables.resolve(value)))
        self.variables.assign(name, value)

    def _launch(self) -> None:
        """Carry the one command over that starts ranks."""
        if not self.launches:
            text = "no command starts ranks: torchrun, accelerate launch, deepspeed, or srun with a Python script"
            self.draft.problem(self.at(1), (), text)
            return
        launch, *more = self.launches
        for other in more:
            text = f"a second command that starts ranks, after line {launch.line}: keep one of them in the file"
            self.draft.problem(self.at(other.line), (str(other.launcher),), text)
        location = self.at(launch.line)
        for name, value in launch.env:
            carry_variable(self.draft, name, self.variables.resolve(assigned(value)), location)
        carry_surroundings(self.draft, launch, location)
        if launch.launcher is Launcher.SRUN and tasks_per_node(launch) is None:
            self.options.place_tasks(location)
        tasks = tasks_per_node(launch) or self.options.tasks_per_node
        if launch.launcher is not Launcher.SRUN and self.options.gpus is None and self.draft.profile.get("backend"):
            self.draft.note(
                location, "gpus_per_node", "no option requests GPUs: the run will be on CPUs", must_change=True
            )
        carry_launch(self.draft, launch, location, gpus=self.options.gpus, tasks=tasks)
        self.options.note_nodes()
        if self.config and self.draft.job.get("entrypoint") == {"module": BUNDLED_TRAINER}:
            del self.draft.job["entrypoint"]
            self.draft.trainer, self.draft.is_whole = self.config, True
