"""What is around a launch command: its interpreter, the step of srun, and a container."""

from __future__ import annotations

from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.shell.commands import Launch
from fsdpctl.other_launchers.shell.statements import plain
from fsdpctl.schema.problems import Location, shorten


def carry_surroundings(draft: Draft, launch: Launch, location: Location) -> None:
    """Set what belongs to a profile, and note what is before the command."""
    for key, text in launch.notes:
        draft.note(location, key, text)
    if launch.python and launch.python.startswith("/") and "venv" not in draft.profile:
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
    for name, value in launch.srun.options:
        if name == "container-image" and value:
            draft.set("profile.backend.container", {"runtime": "pyxis", "image": plain(value)}, location)
        elif name == "container-mounts" and value:
            container = draft.profile.get("backend", {}).get("container", {})
            container["mounts"] = plain(value).split(",")
    draft.profile.setdefault("backend", {}).setdefault("kind", "slurm")


def _carry_container(draft: Draft, launch: Launch, location: Location) -> None:
    assert launch.container is not None
    image = plain(launch.container.rest[0])
    if draft.profile.get("backend"):
        mounts = [plain(value) for name, value in launch.container.options if name == "bind" and value]
        container = {"runtime": "apptainer", "image": image, **({"mounts": mounts} if mounts else {})}
        draft.set("profile.backend.container", container, location)
    else:
        draft.note(location, "container", f"{shorten(image)}: containers need a Slurm profile")
