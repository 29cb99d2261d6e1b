"""Turn the environment of a profile into a Python, shell lines and a container. Pure.

A line that finds the environment missing prints why and what to do, and exits with `UNUSABLE`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import assert_never

from fsdpctl.commands.setup_lines import UNUSABLE
from fsdpctl.contract.plan import ContainerPlan
from fsdpctl.specs.environment import (
    ApptainerEnvironment,
    CondaEnvironment,
    ContainerEnvironment,
    DockerEnvironment,
    Environment,
    ModulesEnvironment,
    PyxisEnvironment,
    UvEnvironment,
    VenvEnvironment,
)
from fsdpctl.specs.profile import ClusterProfile

_DEFINE_MODULE = (
    "type module >/dev/null 2>&1 || for file in /etc/profile.d/{modules,lmod,z00_lmod}.sh"
    " /usr/share/{modules,lmod/lmod}/init/bash; do"
    ' if test -r "$file"; then . "$file"; fi; type module >/dev/null 2>&1 && break; done || true'
)
"""A shell without login has not read the file that defines `module`."""


def outside_python(profile: ClusterProfile) -> str | None:
    """Return the Python on the nodes, outside of a container; None: the backend's default."""
    match profile.environment:
        case VenvEnvironment(path=path):
            return f"{path}/bin/python"
        case UvEnvironment(project=project):
            return f"{project}/.venv/bin/python"
        case CondaEnvironment():
            return "python"
        case ModulesEnvironment(python=python):
            return python
        case ContainerEnvironment() | None:
            return f"{profile.venv}/bin/python" if profile.venv is not None else profile.python
    assert_never(profile.environment)


def container_python(profile: ClusterProfile) -> str | None:
    """Return the Python in the container; None without one."""
    return profile.environment.python if isinstance(profile.environment, ContainerEnvironment) else None


def plan_container(environment: Environment | None, runs_root: str) -> ContainerPlan | None:
    """Return the container with its mounts; None without one."""
    match environment:
        case ApptainerEnvironment(kind=kind) | PyxisEnvironment(kind=kind) | DockerEnvironment(kind=kind):
            return ContainerPlan(kind, environment.image, (runs_root, *environment.mounts), environment.options)
        case _:
            return None


def plan_setup(profile: ClusterProfile) -> tuple[str, ...]:
    """Return the shell lines: those of the profile first, because they may define `module`."""
    modules = [f"module load {shlex.join(profile.modules)}"] if profile.modules else []
    return (*profile.setup, *modules, *_enter_lines(profile.environment))


def _enter_lines(environment: Environment | None) -> Sequence[str]:
    match environment:
        case CondaEnvironment(conda=conda):
            name = environment.name or environment.prefix or ""
            hook = f'eval "$({shlex.quote(conda)} shell.bash hook)"'
            return [
                *_require_program(conda, "set environment.conda to its path"),
                f"{hook} && conda activate {shlex.quote(name)} || "
                + _refuse(f"conda cannot activate {name} on this node", "create it there, or change `environment`"),
            ]
        case ModulesEnvironment():
            names = shlex.join(environment.load)
            return [
                _DEFINE_MODULE,
                *_require_program("module", "install environment-modules or lmod there, or use another kind"),
                *(f"module use {shlex.quote(directory)}" for directory in environment.use),
                f"module load {names} || "
                + _refuse(f"module load {names} failed on this node", "`module avail` lists those that it has"),
            ]
        case ApptainerEnvironment():
            return [
                *_require_program("apptainer", "install it there, or load its module"),
                *_require_image(environment),
            ]
        case DockerEnvironment():
            return _require_program("docker", "install it there, or use apptainer")
        case PyxisEnvironment():
            return _require_image(environment)
        case VenvEnvironment() | UvEnvironment() | None:
            return []
    assert_never(environment)


def _require_program(name: str, fix: str) -> list[str]:
    refuse = _refuse(f"this node has no program {name}", fix)
    return [f"type {shlex.quote(name)} >/dev/null 2>&1 || {refuse}"]


def _require_image(environment: ContainerEnvironment) -> list[str]:
    """Return the line that finds a missing file; a name in a registry is for the runtime to find."""
    if not environment.image.startswith("/"):
        return []
    refuse = _refuse(f"no image {environment.image} on this node", "copy it there, or change environment.image")
    return [f"test -e {shlex.quote(environment.image)} || {refuse}"]


def _refuse(reason: str, fix: str) -> str:
    text = f"environment: {reason}; {fix}"
    return f"{{ echo {shlex.quote(text)} >&2; exit {UNUSABLE}; }}"
