"""What is around a launch command: its interpreter, the step of srun, and a container."""

from __future__ import annotations

from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.shell.commands import Launch
from fsdpctl.other_launchers.shell.statements import plain
from fsdpctl.schema.problems import Location


def carry_surroundings(draft: Draft, launch: Launch, location: Location) -> None:
    """Set what belongs to a profile, and note what is before the command."""
    for key, text in launch.notes:
        draft.note(location, key, text)
    if launch.python and launch.python.startswith("/") and "environment" not in draft.profile:
        draft.set("profile.python", plain(launch.python), location)
    if launch.srun is not None:
        _carry_step(draft, launch, location)
    if launch.container is not None and launch.container.rest:
        _carry_container(draft, launch, location)


def tasks_per_node(launch: Launch) -> int | None:
    """Return what srun starts on each node, if its options have it."""
    value = launch.srun.get("ntasks-per-node") if launch.srun is not None else None
    return int(value) if value and value.isdecimal() else None


def _carry_step(draft: Draft, launch: Launch, location: Location) -> None:
    assert launch.srun is not None
    image, mounts = launch.srun.get("container-image"), launch.srun.get("container-mounts")
    if image:
        _set_container(draft, "pyxis", plain(image), plain(mounts).split(",") if mounts else [], location)
    draft.profile.setdefault("backend", {}).setdefault("kind", "slurm")


def _carry_container(draft: Draft, launch: Launch, location: Location) -> None:
    assert launch.container is not None
    mounts = [plain(value) for name, value in launch.container.options if name == "bind" and value]
    _set_container(draft, "apptainer", plain(launch.container.rest[0]), mounts, location)


def _set_container(draft: Draft, kind: str, image: str, mounts: list[str], location: Location) -> None:
    """Set the container as the environment of the ranks; a virtual environment then runs what is outside of it."""
    before = draft.profile.get("environment", {})
    if before.get("kind") == "venv":
        draft.set("profile.venv", before["path"], draft.profile_locations[("environment",)])
    draft.set("profile.environment", {"kind": kind, "image": image, **({"mounts": mounts} if mounts else {})}, location)
