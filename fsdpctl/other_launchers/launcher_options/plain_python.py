"""A Python program that srun starts once for each rank, or that is given as the command of a job."""

from __future__ import annotations

from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.launcher_options.program import set_entrypoint
from fsdpctl.other_launchers.shell.commands import Launch, Launcher
from fsdpctl.schema.problems import Location


def carry(draft: Draft, launch: Launch, location: Location, procs: int | None) -> None:
    """Carry a command over. `procs`: the ranks of a node, if that is known."""
    if launch.launcher is Launcher.SRUN:
        text = "torchrun starts the ranks: they read RANK, LOCAL_RANK and WORLD_SIZE, not SLURM_PROCID"
        draft.note(location, "srun", text)
    elif "procs_per_node" not in draft.job:
        text = "each rank runs it: one on each GPU, unless `procs_per_node` has another number"
        draft.note(location, "python", text)
    if procs:
        draft.set("job.procs_per_node", procs, location)
    words = launch.words
    is_module = words[:1] == ("-m",)
    set_entrypoint(draft, launch, words[1:] if is_module else words, location, is_module=is_module)
