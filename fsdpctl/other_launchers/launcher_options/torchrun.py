"""The options of torchrun and `python -m torch.distributed.run`, of torch 2.13 and before."""

from __future__ import annotations

from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.launcher_options.program import carry_program
from fsdpctl.other_launchers.launcher_options.ranks import set_nodes, set_procs, set_restarts
from fsdpctl.other_launchers.shell.commands import Launch
from fsdpctl.other_launchers.shell.options import Parsed, Syntax
from fsdpctl.other_launchers.shell.statements import plain
from fsdpctl.other_launchers.shell.variables import is_resolved
from fsdpctl.other_launchers.world import set_head_profile
from fsdpctl.schema.problems import Location, did_you_mean

SYNTAX = Syntax(
    short={"-m": "module", "-r": "redirects", "-t": "tee"},
    flags=("standalone", "module", "no-python", "run-path", "use-env", "virtual-local-rank"),
)
LOGS = "logs of all ranks are in the run directory: `fsdpctl logs`"
_LOGS = ("log-dir", "redirects", "tee", "local-ranks-filter", "duplicate-stdout-filters", "duplicate-stderr-filters")
_OURS = ("rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "master-addr", "master-port", "node-rank")
_SILENT = ("standalone", "module", "no-python", "use-env", "local-addr", "monitor-interval", "role")
_WHY = {
    **dict.fromkeys((*_LOGS, "logs-specs", "event-log-handler"), LOGS),
    "start-method": "ranks are started as torchrun does by default: spawn",
    "run-path": "a script is run as __main__, as torchrun does by default",
    "numa-binding": "ranks are not bound to cores: let the script do it",
    "signals-to-handle": "`stop_signal` of the job is the signal that ranks get at a stop",
    "shutdown-timeout": "`grace` of the job is the time that ranks have to end",
    "virtual-local-rank": "ranks have their own LOCAL_RANK, and see all GPUs of their node",
}
_COUNTS = ("nnodes", "nproc-per-node", "max-restarts")


def carry(draft: Draft, launch: Launch, parsed: Parsed, location: Location, gpus: int | None) -> None:
    """Carry a command over."""
    for name, value in parsed.options:
        match name:
            case "nnodes":
                set_nodes(draft, "--nnodes", value, location)
            case "nproc-per-node":
                set_procs(draft, "--nproc-per-node", value, location, gpus)
            case "max-restarts":
                set_restarts(draft, value, location)
            case _ if name in _WHY:
                draft.note(location, f"--{name}", _WHY[name])
            case _ if name not in (*_OURS, *_SILENT):
                text = f"not known here{did_you_mean(name, (*_COUNTS, *_OURS, *_WHY))}"
                draft.note(location, f"--{name}", text, must_change=True)
    if "nproc-per-node" not in parsed and not draft.makes_profile and "procs_per_node" not in draft.job:
        text = "one rank on each GPU is the default here, and not one on each node: `procs_per_node` is the number"
        draft.note(location, "torchrun", text)
    host, _, port = (parsed.get("rdzv-endpoint") or "").partition(":")
    if address := parsed.get("master-addr") or host:
        _set_head(draft, launch, address, parsed.get("master-port") or port, location)
    carry_program(draft, launch, parsed, location)


def _set_head(draft: Draft, launch: Launch, address: str, port: str, location: Location) -> None:
    """Use a literal address for a profile: with Slurm and with variables, the head is found when the run starts."""
    if draft.makes_profile and launch.srun is None and "backend" not in draft.profile and is_resolved(address):
        set_head_profile(draft, plain(address), port, location, "--master-addr")
