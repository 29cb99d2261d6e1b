"""The checkpoints of a run directory, as they lie there; on hosts that share no disk, see `host_shelf.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fsdpctl.contract.formats.manifest import InvalidCheckpointError, Manifest, committed, read_manifest, verify_files
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.errors import RunFailed, UsageError


@dataclass(frozen=True)
class Stored:
    """One checkpoint; `manifest` is None where `broken` says why it cannot be used."""

    path: Path
    manifest: Manifest | None
    broken: str | None = None
    copies: Mapping[str, str] = field(default_factory=dict)  # host -> what is wrong with its copy; no disk is shared

    @property
    def hosts(self) -> list[str]:
        """Those with a whole copy, where no disk is shared."""
        return [host for host, problem in self.copies.items() if not problem]

    @property
    def problems(self) -> list[str]:
        """What is wrong, copy by copy."""
        spoiled = [f"{self.path.name} on {host}: {problem}" for host, problem in self.copies.items() if problem]
        return spoiled or ([f"{self.path.name}: {self.broken}"] if self.broken else [])


def list_checkpoints(run: RunPaths) -> list[Stored]:
    """All checkpoints of a run, the newest first; of the files only the manifests are read."""
    return [read_stored(run.checkpoints / name) for name in committed(run.checkpoints)[::-1]]


def newest_manifest(run: RunPaths) -> Manifest | None:
    """Of the newest checkpoint whose manifest can be read."""
    return next((stored.manifest for stored in list_checkpoints(run) if stored.manifest), None)


def own_script_error(run: RunPaths) -> UsageError:
    """What is said wherever checkpoints of the bundled trainer are asked for, and there can be none."""
    return UsageError(
        f"run {run.root.name} is of your own script: what it saves is known to it alone",
        hint=f"its checkpoints belong in {run.checkpoints}; started again, it chooses among them itself",
    )


def choose_listed(run: RunPaths, found: Sequence[Stored], step: int | None) -> list[Stored]:
    """The checkpoint of `step`, or all that were found, the newest first; whole or not, but at least one."""
    chosen = [stored for stored in found if step is None or stored.path.name == checkpoint_name(step)]
    if not chosen:
        which = "checkpoint yet" if step is None else f"checkpoint of step {step}"
        raise UsageError(f"run {run.root.name} has no {which}", hint=f"fsdpctl checkpoints ls {run.root.name}")
    return chosen


def choose_whole(run: RunPaths, step: int | None) -> Stored:
    """The checkpoint of `step`, or the newest one that is whole; of either, every byte was read."""
    problems = []
    for stored in choose_listed(run, list_checkpoints(run), step):
        examined = examine(stored)
        if examined.broken is None:
            return examined
        problems += examined.problems
    raise RunFailed("\n".join(problems), hint=f"fsdpctl checkpoints verify {run.root.name}")


def examine(stored: Stored) -> Stored:
    """Read every file and compare it with its digest; the same, with what is wrong."""
    if stored.manifest is None:
        return stored
    try:
        verify_files(stored.path, stored.manifest.files.items())
    except InvalidCheckpointError as error:
        return replace(stored, broken=str(error))
    return stored


def choose_doomed(
    found: Sequence[Stored], keep: int, look: Callable[[Stored], Stored]
) -> tuple[list[Stored], list[Stored]]:
    """Of checkpoints, the newest first: those older than the newest `keep` whole ones, and the broken among the newer.

    Fewer than `keep` whole ones: nothing is doomed.
    """
    broken: list[Stored] = []
    whole = 0
    for position, stored in enumerate(found):
        if (looked_at := look(stored)).broken is None:
            whole += 1
        else:
            broken.append(looked_at)
        if whole == keep:
            return list(found[position + 1 :]), broken
    return [], broken


def read_stored(path: Path) -> Stored:
    try:
        return Stored(path, read_manifest(path))
    except InvalidCheckpointError as error:
        return Stored(path, None, str(error))
