"""Refuse a Trainer of Lightning that was made for other numbers of nodes or ranks than its run has."""

from __future__ import annotations

import os
from typing import Any


def describe_wrong_ranks(num_nodes: int, devices: int, world: int, local_world: int) -> str | None:
    """Return why a Trainer of this shape cannot train in a run of so many ranks; None if it can. Pure.

    A rehearsal has fewer ranks than the job, and so than its Trainer.
    """
    if local_world <= devices and world <= num_nodes * devices:
        return None
    return (
        f"Trainer(num_nodes={num_nodes}, devices={devices}) does not fit {local_world} ranks on each of"
        f" {world // local_world} nodes: num_nodes and devices must be `nodes` and `procs_per_node` of the job"
    )


def refuse_wrong_ranks(trainer: Any) -> None:
    """Raise ValueError before Lightning looks for the device of a rank in a list that is too short."""
    if getattr(trainer.state.fn, "value", None) != "fit":  # one rank may test or predict alone
        return
    world, local_world = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    problem = describe_wrong_ranks(trainer.num_nodes, trainer.num_devices, world, local_world)
    if problem is not None:
        raise ValueError(problem)
