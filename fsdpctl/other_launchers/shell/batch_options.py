"""Options of sbatch, and of srun where they mean the same, as keys of a job and of a Slurm profile."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from fsdpctl.backends.slurm.profile_keys import check_sbatch_option, count_gpus
from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.shell.options import Syntax
from fsdpctl.other_launchers.values import WrongError, whole
from fsdpctl.other_launchers.world import USUAL_GPUS
from fsdpctl.schema.problems import Location
from fsdpctl.schema.types import format_duration

SYNTAX = Syntax(
    short={
        **{"-J": "job-name", "-N": "nodes", "-n": "ntasks", "-p": "partition", "-A": "account", "-q": "qos"},
        **{"-C": "constraint", "-x": "exclude", "-w": "nodelist", "-d": "dependency", "-t": "time", "-G": "gpus"},
        **{"-o": "output", "-e": "error", "-i": "input", "-c": "cpus-per-task", "-D": "chdir", "-a": "array"},
        **{"-l": "label", "-u": "unbuffered", "-K": "kill-on-bad-exit", "-H": "hold", "-k": "no-kill", "-W": "wait"},
        **{"-b": "begin", "-M": "clusters", "-m": "distribution", "-s": "oversubscribe", "-v": "verbose"},
    },
    flags=(
        *("exclusive", "requeue", "no-requeue", "hold", "no-kill", "oversubscribe", "overcommit", "contiguous"),
        *("label", "unbuffered", "kill-on-bad-exit", "overlap", "exact", "verbose", "quiet", "parsable", "pty"),
        *("container-mount-home", "no-container-mount-home", "container-writable", "container-readonly", "spread-job"),
    ),
)

PROFILE_KEYS = ("partition", "account", "qos", "constraint", "reservation", "exclude", "nodelist", "dependency", "mem")
"""Options whose value is that of the profile's key of the same name."""

_LOGS = "logs of all ranks are in the run directory: `fsdpctl logs`"
WHY = {
    "output": _LOGS,
    "error": _LOGS,
    "open-mode": _LOGS,
    "input": "ranks read nothing from stdin",
    "chdir": "submit from that directory: the project there is copied into the run",
    "export": "`env` of the job and `pass_env` of the profile name what ranks get",
    "array": "a run is one job: submit each value by itself, with --set",
    "wrap": "the command is the job's entrypoint",
    "ntasks": "one task on each node starts the ranks",
    "ntasks-per-node": "one task on each node starts the ranks",
    "wait": "`submit --follow` waits for the end",
    "requeue": "runs are requeued by themselves; `max_requeues` limits that",
}
"""Options that have no key, and why."""


class BatchOptions:
    """Carries the options of one script over; its numbers are read by the launch command, too."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.tasks_per_node: int | None = None
        self.cpus_per_task: int | None = None
        self.nodes: int | None = None
        self.gpus: int | None = None
        self.extra: list[str] = []
        self._counts: dict[str, tuple[int, Location]] = {}  # those that other options divide or multiply
        self._readers: Mapping[str, Callable[[str, Location], None]] = {
            "job-name": self._name,
            "nodes": self._nodes,
            "ntasks-per-node": self._tasks,
            "ntasks": lambda value, at: self._count("ntasks", value, at),
            "gpus-per-node": self._gpus,
            "gpus": lambda value, at: self._count("gpus", value, at),
            "gpus-per-task": lambda value, at: self._count("gpus-per-task", value, at),
            "gres": self._gres,
            "cpus-per-task": self._cpus,
            "time": self._time,
            "signal": self._signal,
            "comment": lambda value, at: self._key("comment", value, at),
        }

    def carry(self, name: str, value: str | None, location: Location) -> None:
        """Carry one option over, or note why not."""
        path = (f"--{name}",)
        try:
            if name in self._readers and value is not None:
                self._readers[name](value, location)
            elif name in PROFILE_KEYS and value is not None:
                self._key(name, value, location)
            elif name == "exclusive":
                self._key("exclusive", True, location)
            elif name == "no-requeue":
                self._key("max_requeues", 0, location)
            elif name in WHY:
                self.draft.note(location, path[0], WHY[name])
            else:
                self._other(name, value, location)
        except WrongError as error:
            self.draft.problem(location, path, str(error))

    def finish(self, location: Location) -> None:
        """Set what depends on several options."""
        self._divide("ntasks", self._set_tasks)
        self._divide("gpus", self._set_all_gpus)
        self._multiply(location)
        if self.extra:
            self._key("extra", self.extra, location)

    def place_tasks(self, location: Location) -> None:
        """Place all tasks on one node where each is a rank, and no option has the number of nodes."""
        if "ntasks" in self._counts and self.tasks_per_node is None:
            self.tasks_per_node = self._counts["ntasks"][0]
            self.gpus = None if "gpus-per-task" in self._counts else self.gpus
            self._multiply(location)

    def note_nodes(self) -> None:
        """Divide GPUs by the nodes of the launch command, and note numbers for which no line has the nodes."""
        for option, things in (("ntasks", "tasks"), ("gpus", "GPUs")):
            if option not in self._counts or self.nodes is not None:
                continue
            total, location = self._counts[option]
            if "nodes" not in self.draft.job and total > 1:
                text = f"{total} {things}, without the number of nodes: all are on one here; write `nodes`"
                self.draft.note(location, f"--{option}", text, must_change=total > USUAL_GPUS)
            elif option == "gpus":
                self.gpus = None
                self._divide(option, self._set_all_gpus)

    def _divide(self, option: str, divide: Callable[[int, Location], None]) -> None:
        """Set what follows from a number, or add what is wrong with it."""
        if option in self._counts:
            try:
                divide(*self._counts[option])
            except WrongError as error:
                self.draft.problem(self._counts[option][1], (f"--{option}",), str(error))

    def _multiply(self, location: Location) -> None:
        """Set what a node has of that which each task has."""
        tasks = self.tasks_per_node or 1
        self._divide("gpus-per-task", lambda each, where: self._set_gpus(each * tasks, where))
        if self.cpus_per_task is not None:
            self._key("cpus_per_task", self.cpus_per_task * tasks, location)

    def _key(self, name: str, value: object, location: Location) -> None:
        self.draft.profile.setdefault("backend", {})
        self.draft.set("profile.backend.kind", "slurm", location)
        self.draft.set(f"profile.backend.{name}", value, location)

    def _name(self, value: str, location: Location) -> None:
        self.draft.set("job.name", value, location)

    def _nodes(self, value: str, location: Location) -> None:
        low, _, high = value.partition("-")
        if high and high != low:
            self.draft.note(location, "--nodes", f"a run has a fixed number of nodes: {low} is taken")
        self.nodes = whole(low)
        self.draft.set("job.nodes", self.nodes, location)

    def _tasks(self, value: str, location: Location) -> None:
        self.tasks_per_node = whole(value)

    def _count(self, option: str, value: str, location: Location) -> None:
        self._counts[option] = whole(value.rpartition(":")[2]), location

    def _set_tasks(self, total: int, location: Location) -> None:
        """Find the nodes by the tasks of each, or the tasks of each by the nodes."""
        nodes, each = self._known_nodes(), self.tasks_per_node
        if nodes is None and each is not None:
            if total % each:
                raise WrongError(f"{total} tasks are no multiple of {each} on each node; all nodes have as many ranks")
            self.nodes = total // each
            self.draft.set("job.nodes", self.nodes, location)
        elif nodes is not None and total % nodes:
            raise WrongError(f"{total} tasks do not divide over {nodes} nodes; all nodes have as many ranks")
        elif nodes is not None and each is None:
            self.tasks_per_node = total // nodes

    def _set_all_gpus(self, total: int, location: Location) -> None:
        nodes = self._known_nodes()
        if nodes is None and self.gpus is not None and total % self.gpus == 0:
            nodes = self.nodes = total // self.gpus
            self.draft.set("job.nodes", nodes, location)
        nodes = nodes or 1
        if total % nodes:
            raise WrongError(f"{total} GPUs do not divide over {nodes} nodes")
        self._set_gpus(total // nodes, location)

    def _known_nodes(self) -> int | None:
        """Return the nodes by an option, by the job of a command, or by the launch command."""
        nodes = self.nodes or self.draft.job.get("nodes")
        return nodes if isinstance(nodes, int) and nodes > 0 else None

    def _gpus(self, value: str, location: Location) -> None:
        kind, _, number = value.rpartition(":")
        self._set_gpus(whole(number), location)
        if kind:
            self._key("gres", f"gpu:{value}", location)

    def _gres(self, value: str, location: Location) -> None:
        self._key("gres", value, location)
        if (gpus := count_gpus(value)) is not None:
            self._set_gpus(gpus, location)

    def _set_gpus(self, gpus: int, location: Location) -> None:
        if self.gpus is not None and self.gpus != gpus:
            raise WrongError(f"requests {gpus} GPUs a node, another option {self.gpus}")
        self.gpus = gpus
        self.draft.set("profile.gpus_per_node", gpus, location)

    def _cpus(self, value: str, location: Location) -> None:
        self.cpus_per_task = whole(value)

    def _time(self, value: str, location: Location) -> None:
        self.draft.set("job.time_limit", format_duration(parse_time(value)), location)

    def _signal(self, value: str, location: Location) -> None:
        found = re.fullmatch(r"(?:([BR]+):)?(?:SIG)?(\w+)(?:@([0-9]{1,5}))?", value)
        if found is None or (found[1] and "B" in found[1]):
            text = "the batch script is fsdpctl's own: `stop_signal` and `grace` of the job are for the ranks"
            self.draft.note(location, "--signal", text)
            return
        if found[2] in ("TERM", "USR1", "USR2", "INT"):
            self.draft.set("job.stop_signal", found[2], location)
        if found[3] and int(found[3]) > 0:
            self.draft.set("job.grace", format_duration(int(found[3])), location)

    def _other(self, name: str, value: str | None, location: Location) -> None:
        option = f"--{name}" if value is None else f"--{name}={value}"
        try:
            self.extra.append(check_sbatch_option(option))
        except ValueError as error:
            self.draft.note(location, f"--{name}", str(error))
        else:
            self.draft.profile.setdefault("backend", {})


def parse_time(text: str) -> int:
    """Return the seconds of a time limit: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S. Raise WrongError."""
    found = re.fullmatch(r"(?:([0-9]{1,5})-)?([0-9]{1,7})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?", text)
    if found is None:
        raise WrongError(f"{text} is no time of sbatch, such as 30, 12:00:00 or 2-00:00:00")
    days, first, second, third = (int(part) if part is not None else None for part in found.groups())
    if days is not None:
        seconds = ((days * 24 + (first or 0)) * 60 + (second or 0)) * 60 + (third or 0)
    elif third is not None:
        seconds = ((first or 0) * 60 + (second or 0)) * 60 + third
    else:
        seconds = (first or 0) * 60 + (second or 0)
    if seconds < 1:
        raise WrongError(f"{text}: a time limit of 0 means none: leave the option away")
    return seconds
