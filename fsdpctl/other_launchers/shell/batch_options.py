"""Options of sbatch, and of srun where they mean the same, as keys of a job and of a Slurm profile."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from fsdpctl.backends.slurm.profile_keys import check_sbatch_option, count_gpus
from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.shell.options import Syntax
from fsdpctl.other_launchers.values import WrongError, whole
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
        self._gpus_per_task: tuple[int, Location] | None = None
        self._readers: Mapping[str, Callable[[str, Location], None]] = {
            "job-name": self._name,
            "nodes": self._nodes,
            "ntasks-per-node": self._tasks,
            "ntasks": self._total_tasks,
            "gpus-per-node": self._gpus,
            "gpus": self._total_gpus,
            "gpus-per-task": self._task_gpus,
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
        if self._gpus_per_task is not None:
            each, where = self._gpus_per_task
            self._set_gpus(each * (self.tasks_per_node or 1), where)
        if self.cpus_per_task is not None:
            self._key("cpus_per_task", self.cpus_per_task * (self.tasks_per_node or 1), location)
        if self.extra:
            self._key("extra", self.extra, location)

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

    def _total_tasks(self, value: str, location: Location) -> None:
        total = whole(value)
        if self.nodes and total % self.nodes:
            raise WrongError(f"{total} tasks do not divide over {self.nodes} nodes; all nodes have as many ranks")
        if self.nodes and self.tasks_per_node is None:
            self.tasks_per_node = total // self.nodes

    def _gpus(self, value: str, location: Location) -> None:
        kind, _, number = value.rpartition(":")
        self._set_gpus(whole(number), location)
        if kind:
            self._key("gres", f"gpu:{value}", location)

    def _total_gpus(self, value: str, location: Location) -> None:
        total = whole(value.rpartition(":")[2])
        if total % (self.nodes or 1):
            raise WrongError(f"{total} GPUs do not divide over {self.nodes} nodes")
        self._set_gpus(total // (self.nodes or 1), location)

    def _task_gpus(self, value: str, location: Location) -> None:
        self._gpus_per_task = whole(value.rpartition(":")[2]), location

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
