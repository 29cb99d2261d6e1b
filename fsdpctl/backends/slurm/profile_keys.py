"""The keys of a Slurm profile. Most are sbatch's own options; a value becomes one option, never a line of its own."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from fsdpctl.backends.section import BackendSection
from fsdpctl.schema.spec import Spec
from fsdpctl.schema.types import Count, Duration, Text, Word, check_text

_OUR_SBATCH_OPTIONS = (
    *("array", "batch", "chdir", "comment", "error", "export", "export-file", "help", "input", "job-name", "nodes"),
    *("no-requeue", "ntasks", "ntasks-per-node", "open-mode", "output", "parsable", "requeue", "signal", "test-only"),
    *("time", "usage", "version", "wait", "wrap"),
)


def _check_sbatch_option(value: str) -> str:
    if not re.match(r"--[a-z][a-z0-9-]*(=|$)", check_text(value)):
        raise ValueError("an extra sbatch option is one text like --mail-type=END: two dashes, its long name, = value")
    name = value[2:].partition("=")[0]
    # sbatch takes any unambiguous beginning of an option's name.
    if meant := [ours for ours in _OUR_SBATCH_OPTIONS if ours.startswith(name)]:
        raise ValueError(f"--{meant[0]} is set by fsdpctl and cannot be given under `extra`")
    return value


SbatchOption = Annotated[str, AfterValidator(_check_sbatch_option)]


def _check_container_option(value: str) -> str:
    if not re.match(r"--[a-z][a-z0-9-]*(=|$)", check_text(value)):
        raise ValueError("a container's option is one text like --writable-tmpfs: two dashes, its name, = and a value")
    return value


def _check_mount(value: str) -> str:
    if not re.fullmatch(r"/[^:,]*(:/[^:,]*(:[^:,]+)?)?", check_text(value)):
        raise ValueError("a mount is written /path, /path:/inside or /path:/inside:ro, without a comma")
    return value


ContainerOption = Annotated[str, AfterValidator(_check_container_option)]
Mount = Annotated[str, AfterValidator(_check_mount)]


class ContainerKeys(Spec):
    """What agents and ranks of a Slurm run live in. Batch script, `setup` and `modules` stay outside of it."""

    runtime: Literal["pyxis", "apptainer"]
    """pyxis: `srun --container-image` (enroot). apptainer: `apptainer exec`, which must be on the PATH of the nodes."""
    image: Word
    """As the runtime takes it: a file that all nodes see, or a registry's name."""
    python: Word = "python3"
    """Interpreter inside; `python` and `venv` of the profile run the batch script."""
    mounts: Annotated[tuple[Mount, ...], Field(strict=False)] = ()
    """Directories of the node, like `/data` or `/scratch:/data:ro`; `runs_root` is always there."""
    options: Annotated[tuple[ContainerOption, ...], Field(strict=False)] = ()
    """Further options of srun (pyxis) or `apptainer exec`, like `--container-mount-home`."""


class SlurmBackend(BackendSection):
    """A Slurm partition. Each key is the sbatch option of the same name; values are checked, then passed on."""

    kind: Literal["slurm"]
    partition: Word | None = None  # `--partition`; unset: Slurm's default
    account: Word | None = None  # `--account`, where the cluster charges accounts
    qos: Word | None = None  # `--qos`
    constraint: Word | None = None  # `--constraint`: features that nodes must have
    reservation: Word | None = None  # `--reservation`
    exclude: Word | None = None  # `--exclude`: nodes to stay away from
    nodelist: Word | None = None  # `--nodelist`: nodes that must be among those given
    dependency: Word | None = None  # `--dependency`, like afterok:1234
    gres: Word | None = None
    """GPUs as a generic resource, like `gpu:h100:8`; unset: `--gpus-per-node` from `gpus_per_node`."""
    mem: Word | None = None  # `--mem` of each node, in quotes; "0" is all of it
    cpus_per_task: Count | None = None  # `--cpus-per-task`: one task a node, so the node's share for all its ranks
    comment: Text | None = None  # `--comment`, behind the run id by which we know the job
    exclusive: bool = False  # `--exclusive`: whole nodes, whatever of them is used
    time: Duration | None = None
    """Longest allocation that the partition gives; a longer run comes back by itself. Unset: the job's `time_limit`."""
    max_requeues: Annotated[int, Field(ge=0, le=10_000)] = 100
    """How often one submit may come back after preemption or the time limit."""
    # Not strict about list and tuple: behind `_expand_kind` pydantic sees Python values, no longer JSON.
    extra: Annotated[tuple[SbatchOption, ...], Field(strict=False)] = ()
    """Further sbatch options, one string each, like `--mail-type=END`."""
    container: ContainerKeys | None = None
