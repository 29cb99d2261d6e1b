"""The section `environment` of a profile: what the ranks run in, one of several kinds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fsdpctl.backends.slurm.profile_keys import ContainerOption, Mount
from fsdpctl.contract.problems import Problem, RuleError
from fsdpctl.schema.spec import Spec
from fsdpctl.schema.types import Directory, Program, Word


class VenvEnvironment(Spec):
    """A virtual environment on the nodes."""

    kind: Literal["venv"]
    path: Directory
    """Directory of the environment; its `bin/python` runs the ranks."""


class UvEnvironment(Spec):
    """A project of uv, synchronized before on each disk: `uv sync --project DIR`."""

    kind: Literal["uv"]
    project: Directory
    """Directory with `pyproject.toml`; the Python of its `.venv` runs the ranks."""


class CondaEnvironment(Spec):
    """A conda or mamba environment, activated on each node."""

    kind: Literal["conda"]
    name: Word | None = None
    """Name of the environment; give this or `prefix`."""
    prefix: Directory | None = None
    """Directory of the environment; give this or `name`."""
    conda: Program = "conda"
    """Program that activates it, like `/opt/miniforge3/bin/conda`; default: the one on the PATH of the nodes."""

    @model_validator(mode="after")
    def _one(self) -> CondaEnvironment:
        if (self.name is None) == (self.prefix is None):
            raise RuleError(Problem("", "give either `name` or `prefix`", ("name", "prefix")))
        return self


class ModulesEnvironment(Spec):
    """Environment modules or Lmod, also where a shell without login does not know `module`."""

    kind: Literal["modules"]
    load: tuple[Word, ...]
    """Modules to load, in this order, like `cuda/13`."""
    use: tuple[Directory, ...] = ()
    """Directories with modules, added before (`module use`)."""
    python: Program = "python3"
    """Python interpreter after that: of a module, or of a virtual environment on top of them."""


class ContainerEnvironment(Spec):
    """Keys of all containers."""

    image: Word
    """Image in the form of the runtime: a file that all nodes can read, or a name in a registry."""
    python: Word = "python3"
    """Python interpreter in the container; `python` or `venv` of the profile run what stays outside."""
    mounts: tuple[Mount, ...] = ()
    """Directories of the node to mount, like `/data` or `/scratch:/data:ro`; `runs_root` is always mounted."""
    options: tuple[ContainerOption, ...] = ()
    """Further options of the runtime, one text each, like `--writable-tmpfs`."""


class ApptainerEnvironment(ContainerEnvironment):
    """An apptainer container (`apptainer exec`), with `--nv` on GPUs."""

    kind: Literal["apptainer"]


class PyxisEnvironment(ContainerEnvironment):
    """An enroot container by Slurm's plugin pyxis (`srun --container-image`)."""

    kind: Literal["pyxis"]


class DockerEnvironment(ContainerEnvironment):
    """A docker container (`docker run`), as your user and in the host's network, on local and SSH nodes."""

    kind: Literal["docker"]


Environment = Annotated[
    VenvEnvironment
    | UvEnvironment
    | CondaEnvironment
    | ModulesEnvironment
    | ApptainerEnvironment
    | PyxisEnvironment
    | DockerEnvironment,
    Field(discriminator="kind"),
]
