"""The container that the agents of a Slurm run live in, as the words that put a command into it. Pure.

pyxis makes one of the whole step, by options of srun; apptainer of one command. `setup` stays outside: under pyxis it
has run in the batch script, whose environment srun hands on.
"""

from __future__ import annotations

from fsdpctl.contract.plan import LaunchPlan


def step_options(plan: LaunchPlan) -> list[str]:
    """What srun is told."""
    container = plan.slurm.container if plan.slurm is not None else None
    if container is None or container.runtime != "pyxis":
        return []
    mounts = ",".join(mount if ":" in mount else f"{mount}:{mount}" for mount in container.mounts)
    return [f"--container-image={container.image}", f"--container-mounts={mounts}", *container.options]


def task_setup(plan: LaunchPlan) -> tuple[str, ...]:
    """The shell lines that run in the step, before the command."""
    return () if step_options(plan) else plan.setup


def enter(plan: LaunchPlan) -> list[str]:
    """What stands before the command."""
    container = plan.slurm.container if plan.slurm is not None else None
    if container is None or container.runtime != "apptainer":
        return []
    binds = [f"--bind={mount}" for mount in container.mounts]
    gpus = ["--nv"] if plan.device == "cuda" else []
    return ["apptainer", "exec", *gpus, *binds, *container.options, container.image]
