"""The container of a Slurm run's agents, as arguments of srun or around the agent's command. Pure.

pyxis runs the whole step in a container, by options of srun; apptainer runs one command. `setup` stays outside: under
pyxis it has run in the batch script, whose environment srun passes on.
"""

from __future__ import annotations

from fsdpctl.contract.plan import LaunchPlan


def step_options(plan: LaunchPlan) -> list[str]:
    """Return the options of srun for the container; none without pyxis."""
    container = plan.slurm.container if plan.slurm is not None else None
    if container is None or container.runtime != "pyxis":
        return []
    mounts = ",".join(mount if ":" in mount else f"{mount}:{mount}" for mount in container.mounts)
    return [f"--container-image={container.image}", f"--container-mounts={mounts}", *container.options]


def task_setup(plan: LaunchPlan) -> tuple[str, ...]:
    """Return the shell lines that run in the step before the command."""
    return () if step_options(plan) else plan.setup


def enter(plan: LaunchPlan) -> list[str]:
    """Return the arguments before the command that run it in the container; none without apptainer."""
    container = plan.slurm.container if plan.slurm is not None else None
    if container is None or container.runtime != "apptainer":
        return []
    binds = [f"--bind={mount}" for mount in container.mounts]
    gpus = ["--nv"] if plan.device == "cuda" else []
    return ["apptainer", "exec", *gpus, *binds, *container.options, container.image]
