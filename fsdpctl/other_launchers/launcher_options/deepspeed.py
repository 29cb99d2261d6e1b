"""The options of the program `deepspeed`."""

from __future__ import annotations

from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.launcher_options.program import carry_program
from fsdpctl.other_launchers.launcher_options.ranks import set_nodes, set_procs
from fsdpctl.other_launchers.shell.commands import Launch
from fsdpctl.other_launchers.shell.options import Parsed, Syntax
from fsdpctl.schema.problems import Location, did_you_mean

SYNTAX = Syntax(
    short={"-H": "hostfile", "-i": "include", "-e": "exclude"},
    flags=(
        *("module", "no-python", "no-local-rank", "no-ssh", "no-ssh-check", "force-multi", "save-pid"),
        *("elastic-training", "bind-cores-to-rank"),
    ),
)
_SILENT = ("module", "no-python", "no-local-rank", "no-ssh", "no-ssh-check", "force-multi", "save-pid", "launcher")
_OURS = ("master-addr", "master-port", "node-rank", "ssh-port", "launcher-args", "venv-script")
_WHY = {
    "include": "nodes and GPUs are those of the profile",
    "exclude": "nodes and GPUs are those of the profile",
    "enable-each-rank-log": "logs of all ranks are in the run directory: `fsdpctl logs`",
    "bind-cores-to-rank": "ranks are not bound to cores: let the script do it",
    "bind-core-list": "ranks are not bound to cores: let the script do it",
}
_CHANGE = {
    "hostfile": "it is not opened: write its hosts under `nodes` of a profile",
    "elastic-training": "a run has a fixed number of nodes: write `nodes`",
    "min-elastic-nodes": "a run has a fixed number of nodes: write `nodes`",
    "max-elastic-nodes": "a run has a fixed number of nodes: write `nodes`",
    "autotuning": "a run trains: start the autotuning by hand",
}


def carry(draft: Draft, launch: Launch, parsed: Parsed, location: Location, gpus: int | None) -> None:
    """Carry a command over."""
    for name, value in parsed.options:
        match name:
            case "num-nodes":
                set_nodes(draft, "--num_nodes", value, location)
            case "num-gpus":
                set_procs(draft, "--num_gpus", value, location, gpus)
            case _ if name in _WHY:
                draft.note(location, f"--{name}", _WHY[name])
            case _ if name in _CHANGE:
                draft.note(location, f"--{name}", _CHANGE[name], must_change=True)
            case _ if name not in (*_SILENT, *_OURS):
                text = f"not known here{did_you_mean(name, ('num-nodes', 'num-gpus', *_OURS, *_WHY, *_CHANGE))}"
                draft.note(location, f"--{name}", text, must_change=True)
    if "no-local-rank" not in parsed:
        draft.note(location, "deepspeed", "ranks find LOCAL_RANK in the environment, and get no --local_rank")
    carry_program(draft, launch, parsed, location)
