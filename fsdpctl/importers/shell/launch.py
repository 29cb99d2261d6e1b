"""Carry the options of torchrun, `accelerate launch`, deepspeed and srun over, and the program with its arguments."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from fsdpctl.importers import accelerate
from fsdpctl.importers.imported import Draft
from fsdpctl.importers.keys.accelerate import ROWS
from fsdpctl.importers.shell.commands import Launch, Launcher
from fsdpctl.importers.shell.options import Parsed, Syntax, parse_options
from fsdpctl.importers.shell.statements import PATTERN, plain
from fsdpctl.importers.shell.variables import is_resolved, unknown_in
from fsdpctl.importers.values import WrongError, whole
from fsdpctl.importers.world import set_head_profile
from fsdpctl.schema.problems import Location, shorten
from fsdpctl.schema.secret_names import is_secret_option
from fsdpctl.schema.yaml_tree import YamlDocument, read_scalar

_TORCHRUN = Syntax(
    short={"-m": "module", "-r": "redirects", "-t": "tee"},
    flags=("standalone", "module", "no-python", "run-path", "use-env", "use_env"),
)
_ACCELERATE = Syntax(
    short={"-m": "module"},
    flags=("module", "no-python", "use-fsdp", "multi-gpu", "use-deepspeed", "cpu", "use-cpu", "debug", "tpu", "quiet"),
)
_DEEPSPEED = Syntax(
    short={"-H": "hostfile", "-i": "include", "-e": "exclude"},
    flags=("module", "no-python", "no-local-rank", "force-multi", "enable-each-rank-log", "no-ssh", "save-pid"),
)
_RENDEZVOUS = ("rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "master-addr", "master-port", "node-rank")
_ACCELERATE_RENDEZVOUS = ("main-process-ip", "main-process-port", "machine-rank")
_ACCELERATE_KEYS = {row.key.rpartition(".")[2]: row.key for row in reversed(ROWS)}
_LOGS = ("log-dir", "redirects", "tee", "local-ranks-filter", "enable-each-rank-log", "save-pid")
_SILENT = ("standalone", "use-env", "module", "quiet", "use-fsdp", "multi-gpu", "use-deepspeed", "cpu", "use-cpu")
_NPROC_WORDS = ("gpu", "auto", "cpu")


def _scalar(word: str) -> object:
    """Return the value of an option as YAML would have it; one that the shell would fill in stays text."""
    try:
        return read_scalar(plain(word)) if is_resolved(word) else word.replace(PATTERN, "")
    except ValueError:
        return word


def _is_secret(flag: str, value: str) -> bool:
    return not value.startswith("-") and is_secret_option(flag, plain(value))


class LaunchReader:
    """Carries one launch command over. `gpus`: of a node, by #SBATCH lines; `tasks`: what they start on a node."""

    def __init__(self, draft: Draft, launch: Launch, *, gpus: int | None, tasks: int | None) -> None:
        self.draft, self.launch = draft, launch
        self.location = Location(draft.source, launch.line)
        self.gpus, self.tasks = gpus, tasks
        self.nodes = draft.job.get("nodes")  # of #SBATCH lines

    def carry(self) -> None:
        """Set the entrypoint, its arguments, and the ranks."""
        match self.launch.launcher:
            case Launcher.TORCHRUN:
                self._torchrun(parse_options(self.launch.words, _TORCHRUN))
            case Launcher.ACCELERATE:
                self._accelerate(parse_options(self.launch.words, _ACCELERATE))
            case Launcher.DEEPSPEED:
                self._deepspeed(parse_options(self.launch.words, _DEEPSPEED))
            case Launcher.SRUN:
                self._srun()

    def _torchrun(self, parsed: Parsed) -> None:
        for name, value in parsed.options:
            match name:
                case "nnodes":
                    self._set_nodes("--nnodes", value)
                case "nproc-per-node":
                    self._set_procs("--nproc-per-node", value)
                case "max-restarts":
                    self._set_restarts(value)
                case _:
                    self._note_option(name)
        if parsed.get("rdzv-endpoint") or parsed.get("master-addr"):
            host, _, port = (parsed.get("rdzv-endpoint") or "").partition(":")
            self._set_head(parsed.get("master-addr") or host, parsed.get("master-port") or port)
        self._program(parsed, is_module="module" in parsed)

    def _accelerate(self, parsed: Parsed) -> None:
        """Read the options as the configuration that they override."""
        tree: dict[str, Any] = {}
        for name, value in parsed.options:
            key = name.replace("-", "_")
            if name == "config-file":
                text = f"its settings are not read here: fsdpctl jobs import {shorten(str(value))} --script FILE"
                self.draft.note(self.location, "--config_file", text, must_change=True)
            elif name in _ACCELERATE_RENDEZVOUS and not is_resolved(value or ""):
                continue  # found when the run starts, as here
            elif name == "max-restarts":
                self._set_restarts(value)
            elif name not in _SILENT and value is not None:
                section, _, last = _ACCELERATE_KEYS.get(key, key).rpartition(".")
                place = tree.setdefault(section, {}) if section else tree
                place[last] = _scalar(value)
        if tree or len(parsed.options) > ("config-file" in parsed):
            tree["distributed_type"] = self._distributed(parsed, tree)
            accelerate.read(YamlDocument("", tree, {(): self.location}), self.draft)
        self._check_nodes(tree.get("num_machines"))
        self._program(parsed, is_module="module" in parsed)

    def _check_nodes(self, machines: object) -> None:
        if self.nodes is not None and isinstance(machines, int) and machines != self.nodes:
            text = f"{machines}, but the #SBATCH lines request {self.nodes} nodes"
            self.draft.problem(self.location, ("--num_machines",), text)

    @staticmethod
    def _distributed(parsed: Parsed, tree: dict[str, Any]) -> str:
        if "use-fsdp" in parsed or "fsdp_config" in tree:
            return "FSDP"
        return "DEEPSPEED" if "use-deepspeed" in parsed or "deepspeed_config" in tree else "MULTI_GPU"

    def _deepspeed(self, parsed: Parsed) -> None:
        for name, value in parsed.options:
            match name:
                case "num-nodes":
                    self._set_nodes("--num_nodes", value)
                case "num-gpus":
                    self._set_procs("--num_gpus", value)
                case "hostfile":
                    self._note(
                        "--hostfile", "it is not opened: write its hosts under `nodes` of a profile", change=True
                    )
                case "include" | "exclude":
                    self._note(f"--{name}", "nodes and GPUs are those of the profile")
                case _:
                    self._note_option(name)
        if "no-local-rank" not in parsed:
            self._note("deepspeed", "ranks find LOCAL_RANK in the environment, and get no --local_rank")
        self._program(parsed, is_module="module" in parsed)

    def _srun(self) -> None:
        """Take a script that srun starts once for each rank: torchrun starts it instead."""
        words = self.launch.words
        self._note("srun", "torchrun starts the ranks: they read RANK, LOCAL_RANK and WORLD_SIZE, not SLURM_PROCID")
        procs = self.tasks or self.gpus
        if procs:
            self.draft.set("job.procs_per_node", procs, self.location)
        is_module = words[:1] == ("-m",)
        self._entrypoint(words[1:] if is_module else words, is_module=is_module)

    def _set_nodes(self, option: str, value: str | None) -> None:
        low, _, high = (value or "").partition(":")
        given = high or low
        if not is_resolved(given):
            if ("nodes",) not in self.draft.job_locations:
                self._note(option, f"{shorten(given)} is not known from the text: write `nodes`", change=True)
            return
        try:
            nodes = whole(given)
        except WrongError as error:
            self.draft.problem(self.location, (option,), str(error))
            return
        if high and high != low:
            self._note(option, f"a run has a fixed number of nodes: {nodes} is taken")
        known = self.draft.job.get("nodes")
        if known is not None and known != nodes:
            text = f"{nodes}, but {self.draft.job_locations[('nodes',)]} has {known} nodes"
            self.draft.problem(self.location, (option,), text)
        self.draft.set("job.nodes", nodes, self.location)

    def _set_procs(self, option: str, value: str | None) -> None:
        if value in _NPROC_WORDS:
            return
        if value is None or not is_resolved(value):
            if self.gpus is None:
                text = f"{shorten(str(value))} is not known from the text: the default is one rank on each GPU"
                self._note(option, text)
            return
        try:
            procs = whole(value)
        except WrongError as error:
            self.draft.problem(self.location, (option,), str(error))
            return
        if self.gpus is not None and procs > self.gpus:
            text = f"{procs} ranks a node, but it is given {self.gpus} {'GPU' if self.gpus == 1 else 'GPUs'}"
            self.draft.problem(self.location, (option,), text)
        self.draft.set("job.procs_per_node", procs, self.location)

    def _set_restarts(self, value: str | None) -> None:
        if value is not None and value.isdecimal() and len(value) < 5:
            self.draft.set("job.restarts", int(value), self.location)

    def _set_head(self, address: str, port: str) -> None:
        """Use a literal address: with Slurm and with variables, the head is found when the run starts."""
        if self.launch.srun is None and "backend" not in self.draft.profile and address and is_resolved(address):
            set_head_profile(self.draft, plain(address), port, self.location, "--master-addr")

    def _note_option(self, name: str) -> None:
        if name in _RENDEZVOUS or name in _SILENT:
            return  # what fsdpctl is for
        if name in _LOGS:
            self._note(f"--{name}", "logs of all ranks are in the run directory: `fsdpctl logs`")
        elif name == "no-python":
            self.draft.problem(self.location, ("--no-python",), "ranks of a run are Python programs")
        elif name == "monitor-interval":
            return
        else:
            self._note(f"--{name}", "not known here")

    def _program(self, parsed: Parsed, *, is_module: bool) -> None:
        if "no-python" in parsed and self.launch.launcher is not Launcher.TORCHRUN:
            self.draft.problem(self.location, ("--no_python",), "ranks of a run are Python programs")
        words: Sequence[str] = parsed.rest
        if is_module and (given := parsed.get("module")) is not None:  # --module=NAME
            words = (given, *words)
        self._entrypoint(words, is_module=is_module)

    def _entrypoint(self, words: Sequence[str], *, is_module: bool) -> None:
        if not words:
            self.draft.problem(
                self.location, (str(self.launch.launcher),), "starts no script: its options are not followed by one"
            )
            return
        program, *args = words
        if not is_resolved(program):
            self._note("entrypoint", f"{unknown_in(program)} is not known from the text: write the script", change=True)
        elif program.startswith("/"):
            text = "scripts are copied with the project: write it relative to the directory where you submit"
            self._note("entrypoint.script", text, change=True)
        elif (folder := self.launch.folder) not in ("", "."):
            self._note("cd", f"ranks start in the directory of the project, not in {shorten(folder)}")
            if is_module or folder.startswith("../") or folder == "..":
                text = f"it was started in {shorten(folder)}: write it relative to the directory where you submit"
                self._note("entrypoint", text, change=True)
            else:
                program = posixpath.normpath(posixpath.join(folder, program))
        self.draft.set(f"job.entrypoint.{'module' if is_module else 'script'}", plain(program), self.location)
        kept = self._without_secrets(args)
        for place, word in enumerate(kept):
            if not is_resolved(word):
                text = f"no shell fills in {shorten(unknown_in(word))}: write the value"
                self._note(f"args[{place}]", text, change=True)
        if kept:
            self.draft.set("job.args", [plain(word) for word in kept], self.location)

    def _without_secrets(self, args: Sequence[str]) -> list[str]:
        kept: list[str] = []
        skips = False
        for place, word in enumerate(args):
            flag, equals, value = word.partition("=")
            following = args[place + 1] if place + 1 < len(args) else ""
            if skips:
                skips = False
            elif flag.startswith("-") and _is_secret(flag, value if equals else following):
                skips = not equals
                self._note(
                    flag,
                    "a secret is not written into a job: let the script read a variable of `pass_env`",
                    change=True,
                )
            else:
                kept.append(word)
        return kept

    def _note(self, key: str, text: str, *, change: bool = False) -> None:
        self.draft.note(self.location, key, text, must_change=change)
