"""The container of a run's agents: arguments of srun, or before the agent's command. Pure.

pyxis runs the whole step in a container, by options of srun; apptainer and docker run one command. `setup` stays
outside: under pyxis it has run in the batch script, whose environment srun passes on.
"""

from __future__ import annotations

from fsdpctl.contract import Env
from fsdpctl.contract.plan import ContainerPlan, LaunchPlan

_OF_DOCKER = (
    *("--rm", "--interactive", "--network=host", "--pid=host", "--ipc=host", "--uts=host", "--ulimit=memlock=-1"),
    *("--ulimit=stack=67108864", "--env=USER", "--env=HOME=/tmp"),
)
"""The host's own namespaces: the agent's processes are found and ended by their pids on the host."""
_PASSED_TO_DOCKER = (Env.RUN_ID, Env.ATTEMPT, Env.NODE_RANK, Env.USER_PYTHONPATH, "PYTHONPATH", "PYTHONSAFEPATH")
_AS_THIS_USER = 'exec docker run --user="$(id -u):$(id -g)" "$@"'
"""The id is known only on the node; files of root in the run directory could not be removed."""


def find_container(plan: LaunchPlan) -> ContainerPlan | None:
    """Return the container of a plan; None without one."""
    return plan.container or (plan.slurm.container if plan.slurm is not None else None)


def step_options(plan: LaunchPlan) -> list[str]:
    """Return the options of srun for the container; none without pyxis."""
    container = find_container(plan)
    if container is None or container.runtime != "pyxis":
        return []
    mounts = ",".join(mount if ":" in mount else f"{mount}:{mount}" for mount in container.mounts)
    return [f"--container-image={container.image}", f"--container-mounts={mounts}", *container.options]


def task_setup(plan: LaunchPlan) -> tuple[str, ...]:
    """Return the shell lines that run in the step before the command."""
    return () if step_options(plan) else plan.setup


def enter(plan: LaunchPlan) -> list[str]:
    """Return the arguments before the command that run it in the container; none without one, and under pyxis."""
    container = find_container(plan)
    if container is None or container.runtime == "pyxis":
        return []
    return _enter_docker(plan, container) if container.runtime == "docker" else _enter_apptainer(plan, container)


def _enter_apptainer(plan: LaunchPlan, container: ContainerPlan) -> list[str]:
    binds = [f"--bind={mount}" for mount in container.mounts]
    gpus = ["--nv"] if plan.device == "cuda" else []
    return ["apptainer", "exec", *gpus, *binds, *container.options, container.image]


def _enter_docker(plan: LaunchPlan, container: ContainerPlan) -> list[str]:
    volumes = [f"--volume={mount if ':' in mount else f'{mount}:{mount}'}" for mount in container.mounts]
    gpus = ["--gpus=all"] if plan.device == "cuda" else []
    passed = [f"--env={name}" for name in _PASSED_TO_DOCKER]
    return [
        *("bash", "-c", _AS_THIS_USER, "docker"),
        *_OF_DOCKER,
        *gpus,
        *passed,
        *volumes,
        *container.options,
        container.image,
    ]
