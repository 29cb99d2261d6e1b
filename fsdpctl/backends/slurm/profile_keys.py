"""The keys of a Slurm profile. Most are sbatch's own options; a value becomes one option."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from fsdpctl.backends.section import BackendSection
from fsdpctl.schema.spec import Spec
from fsdpctl.schema.types import Count, Duration, Text, Word, check_text

_OWN_SBATCH_OPTIONS = (
    *("array", "batch", "chdir", "comment", "error", "export", "export-file", "help", "input", "job-name", "nodes"),
    *("no-requeue", "ntasks", "ntasks-per-node", "open-mode", "output", "parsable", "requeue", "signal", "test-only"),
    *("time", "usage", "version", "wait", "wrap"),
)


def _check_sbatch_option(value: str) -> str:
    if not re.match(r"--[a-z][a-z0-9-]*(=|$)", check_text(value)):
        raise ValueError(
            "an extra sbatch option is one string like --mail-type=END: two dashes, its long name, = value"
        )
    name = value[2:].partition("=")[0]
    # sbatch accepts any unambiguous prefix of an option's name.
    if meant := [own for own in _OWN_SBATCH_OPTIONS if own.startswith(name)]:
        raise ValueError(f"--{meant[0]} is set by fsdpctl and cannot be given under `extra`")
    return value


SbatchOption = Annotated[str, AfterValidator(_check_sbatch_option)]


def _check_container_option(value: str) -> str:
    if not re.match(r"--[a-z][a-z0-9-]*(=|$)", check_text(value)):
        raise ValueError(
            "a container's option is one string like --writable-tmpfs: two dashes, its name, = and a value"
        )
    return value


def _check_mount(value: str) -> str:
    if not re.fullmatch(r"/[^:,]*(:/[^:,]*(:[^:,]+)?)?", check_text(value)):
        raise ValueError("a mount is written /path, /path:/inside or /path:/inside:ro, without a comma")
    return value


ContainerOption = Annotated[str, AfterValidator(_check_container_option)]
Mount = Annotated[str, AfterValidator(_check_mount)]


class ContainerKeys(Spec):
    """The container of a Slurm run's agents and ranks. Batch script, `setup` and `modules` run outside of it."""

    runtime: Literal["pyxis", "apptainer"]
    """pyxis: `srun --container-image` (enroot). apptainer: `apptainer exec`, which must be on the PATH of the nodes."""
    image: Word
    """Image for the runtime: a file that all nodes see, or a name in a registry."""
    python: Word = "python3"
    """Interpreter inside the container; `python` and `venv` of the profile run the batch script."""
    mounts: Annotated[tuple[Mount, ...], Field(strict=False)] = ()
    """Directories of the node, like `/data` or `/scratch:/data:ro`; `runs_root` is always mounted."""
    options: Annotated[tuple[ContainerOption, ...], Field(strict=False)] = ()
    """Further options of srun (pyxis) or `apptainer exec`, like `--container-mount-home`."""


class SlurmBackend(BackendSection):
    """A Slurm partition. Each key is the sbatch option of the same name; values are checked, then passed on."""

    kind: Literal["slurm"]
    partition: Word | None = None  # `--partition`; unset: Slurm's default
    account: Word | None = None  # `--account`: the account that is charged
    qos: Word | None = None  # `--qos`
    constraint: Word | None = None  # `--constraint`: features that nodes must have
    reservation: Word | None = None  # `--reservation`
    exclude: Word | None = None  # `--exclude`: nodes not to use
    nodelist: Word | None = None  # `--nodelist`: nodes that must be part of the allocation
    dependency: Word | None = None  # `--dependency`, like afterok:1234
    gres: Word | None = None
    """GPUs as a generic resource, like `gpu:h100:8`; unset: `--gpus-per-node` from `gpus_per_node`."""
    mem: Word | None = None  # `--mem` of each node, in quotes; "0" is all of it
    cpus_per_task: Count | None = None  # `--cpus-per-task`: CPUs of each node, for all of its ranks
    comment: Text | None = None  # `--comment`, after the run id that identifies the job
    exclusive: bool = False  # `--exclusive`: whole nodes, even if only a part is used
    time: Duration | None = None
    """Maximum time of one allocation; a longer run is requeued by itself. Unset: the job's `time_limit`."""
    max_requeues: Annotated[int, Field(ge=0, le=10_000)] = 100
    """Maximum requeues of one submit, after preemption or the time limit."""
    # Not strict about list and tuple: after `_expand_kind` pydantic gets Python values, not JSON.
    extra: Annotated[tuple[SbatchOption, ...], Field(strict=False)] = ()
    """Further sbatch options, one string each, like `--mail-type=END`."""
    container: ContainerKeys | None = None
