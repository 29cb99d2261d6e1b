"""The keys of a Slurm profile. Most are options of sbatch; a value becomes one option, never a separate line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from fsdpctl.backends.section import BackendSection
from fsdpctl.contract.problems import Problem
from fsdpctl.schema.spec import Spec
from fsdpctl.schema.types import Count, Duration, Text, Word, check_text

_RESERVED_SBATCH_OPTIONS = (
    *("array", "batch", "chdir", "comment", "error", "export", "export-file", "help", "input", "job-name", "nodes"),
    *("no-requeue", "ntasks", "ntasks-per-node", "open-mode", "output", "parsable", "requeue", "signal", "test-only"),
    *("time", "usage", "version", "wait", "wrap"),
)

_OTHER_JOBS = {
    "clusters": "a run is one job of the cluster that this machine belongs to",
    "het-group": "a run is one job, whose nodes are all alike",
}
"""Options that make another kind of job than a run can be."""


def check_sbatch_option(value: str) -> str:
    """Check an option that a profile may pass to sbatch. Raise ValueError."""
    if not re.match(r"--[a-z][a-z0-9-]*(=|$)", check_text(value)):
        raise ValueError(
            "an extra sbatch option is one string like --mail-type=END: two dashes, its long name, = value"
        )
    name = value[2:].partition("=")[0]
    # sbatch accepts any unambiguous prefix of an option's name.
    if reserved := [option for option in _RESERVED_SBATCH_OPTIONS if option.startswith(name)]:
        raise ValueError(f"--{reserved[0]} is set by fsdpctl and cannot be set under `extra`")
    if other := [option for option in _OTHER_JOBS if option.startswith(name)]:
        raise ValueError(f"--{other[0]} cannot be set: {_OTHER_JOBS[other[0]]}")
    return value


SbatchOption = Annotated[str, AfterValidator(check_sbatch_option)]


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
    """Older form of `environment` with the kind `pyxis` or `apptainer`."""

    runtime: Literal["pyxis", "apptainer"]
    """Container runtime: `pyxis` (`srun --container-image`, enroot), or `apptainer` from the PATH of the nodes."""
    image: Word
    """Image in the form of the runtime: a file that all nodes can read, or a name in a registry."""
    python: Word = "python3"
    """Python interpreter in the container; `python` and `venv` of the profile run only the batch script."""
    mounts: Annotated[tuple[Mount, ...], Field(strict=False)] = ()
    """Directories of the node to mount, like `/data` or `/scratch:/data:ro`; `runs_root` is always mounted."""
    options: Annotated[tuple[ContainerOption, ...], Field(strict=False)] = ()
    """Further options of `srun` (pyxis) or `apptainer exec`, like `--container-mount-home`."""


class SlurmSection(BackendSection):
    """A Slurm partition. Most keys are the sbatch options of the same name; values are checked, then passed on."""

    kind: Literal["slurm"]
    partition: Word | None = None  # Partition (`--partition`); default: that of the cluster
    account: Word | None = None  # Account to charge (`--account`); default: that of the user
    qos: Word | None = None  # Quality of service (`--qos`)
    constraint: Word | None = None  # Features that nodes must have (`--constraint`)
    reservation: Word | None = None  # Reservation to use (`--reservation`)
    exclude: Word | None = None  # Nodes that must not be allocated (`--exclude`)
    nodelist: Word | None = None  # Nodes that must be allocated (`--nodelist`)
    dependency: Word | None = None  # Jobs to wait for (`--dependency`), like `afterok:1234`
    gres: Word | None = None
    """GPUs of a node as a generic resource (`--gres`), like `gpu:h100:8`; default: `--gpus-per-node` with
    `gpus_per_node`."""
    mem: Word | None = None  # Memory per node (`--mem`), as quoted text; `"0"` is all memory
    cpus_per_task: Count | None = None  # CPUs per node, for all its ranks (`--cpus-per-task`, with one task per node)
    comment: Text | None = None  # Comment of the job (`--comment`), added after the run id
    exclusive: bool = False  # Set to true to allocate whole nodes (`--exclusive`)
    time: Duration | None = None
    """Longest allocation of the partition; a longer run is requeued. Default: the job's `time_limit`."""
    max_requeues: Annotated[int, Field(ge=0, le=10_000)] = 100
    """Maximum number of requeues per submission, after preemption or the time limit."""
    # Not strict about list and tuple: after `_expand_kind` pydantic gets Python values instead of JSON.
    extra: Annotated[tuple[SbatchOption, ...], Field(strict=False)] = ()
    """Further sbatch options, one text each, like `--mail-type=END`."""
    container: ContainerKeys | None = None

    @property
    def gres_gpus(self) -> int | None:
        """The GPUs of a node that `gres` requests; None if it requests none."""
        return count_gpus(self.gres or "")

    def find_problems(self, num_nodes: int, gpus_per_node: int | None, runs_root: str | None) -> Iterator[Problem]:
        asked = self.gres_gpus
        if asked is not None and gpus_per_node is not None and asked != gpus_per_node:
            text = f"{self.gres} requests {asked} GPUs a node, gpus_per_node is {gpus_per_node}; leave one of them out"
            yield Problem("backend.gres", text, ("gpus_per_node",))


def count_gpus(gres: str) -> int | None:
    """Return the GPUs that a value of `--gres` requests, like `gpu:4`, `gpu:h100:4,nvme:1` or `gres/gpu`: the sum over
    its types, one where no number is given; None if it requests none.
    """
    counts = []
    for part in gres.split(","):
        kind, *rest = re.split("[:=]", re.sub(r"^gres[:/]|\(.*", "", part))
        if kind == "gpu":
            counts.append(int(rest[-1]) if rest and rest[-1].isdecimal() else 1)
    return sum(counts) if counts else None
