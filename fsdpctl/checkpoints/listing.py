"""The checkpoints in a run directory; for hosts that share no disk, see `per_host_store.py`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from fsdpctl.contract.formats.lease import leased
from fsdpctl.contract.formats.manifest import InvalidCheckpointError, Manifest, committed, read_manifest, verify_files
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.errors import RunFailed, UsageError


@dataclass(frozen=True)
class Stored:
    """One checkpoint; `broken` is the reason if it cannot be used."""

    path: Path
    manifest: Manifest | None
    broken: str | None = None
    copies: Mapping[str, str] = field(default_factory=dict)  # without a shared disk: host -> problem of its copy or ""
    is_gone: bool = False  # the run has removed it since it was listed

    @property
    def hosts(self) -> list[str]:
        """Hosts with a whole copy, where no disk is shared."""
        return [host for host, problem in self.copies.items() if not problem]

    @property
    def problems(self) -> list[str]:
        """What is wrong, one text per copy."""
        if self.is_gone:
            return []
        damaged = [f"{self.path.name} on {host}: {problem}" for host, problem in self.copies.items() if problem]
        return damaged or ([f"{self.path.name}: {self.broken}"] if self.broken else [])


@dataclass(frozen=True)
class Taken:
    """A whole checkpoint to be read, and the names of newer ones that are damaged."""

    stored: Stored
    passed_over: tuple[str, ...] = ()


def list_checkpoints(run: RunPaths) -> list[Stored]:
    """Return all checkpoints of a run, the newest first; reads only their manifests."""
    found = [read_stored(run.checkpoints / name) for name in committed(run.checkpoints)[::-1]]
    return [stored for stored in found if stored.manifest or os.path.lexists(stored.path)]


def newest_manifest(run: RunPaths) -> Manifest | None:
    """Return the manifest of the newest checkpoint that has a readable one."""
    return next((stored.manifest for stored in list_checkpoints(run) if stored.manifest), None)


def own_script_error(run: RunPaths) -> UsageError:
    """Return the error of commands that need checkpoints of the bundled trainer, for a run of a user's own script."""
    return UsageError(
        f"run {run.root.name} runs your own script: fsdpctl does not know the format of its checkpoints",
        hint=f"its checkpoints belong in {run.checkpoints}; the script itself chooses one when it starts again",
    )


def choose_listed(run: RunPaths, found: Sequence[Stored], step: int | None) -> list[Stored]:
    """Return the checkpoint of `step`, or all, the newest first, whole or not. Raise UsageError if there is none."""
    chosen = [stored for stored in found if step is None or stored.path.name == checkpoint_name(step)]
    if not chosen:
        which = "checkpoint yet" if step is None else f"checkpoint of step {step}"
        raise UsageError(f"run {run.root.name} has no {which}", hint=f"fsdpctl checkpoints ls {run.root.name}")
    return chosen


@contextmanager
def take_whole(run: RunPaths, step: int | None) -> Iterator[Taken]:
    """Yield the checkpoint of `step`, or the newest whole one, leased and with every byte verified.

    The run may remove one before it is leased: there is a newer one then. Raise RunFailed if none is whole.
    """
    broken: dict[str, Stored] = {}
    while True:
        found = [one for one in choose_listed(run, list_checkpoints(run), step) if one.path.name not in broken]
        if not found:
            problems = [problem for stored in broken.values() for problem in stored.problems]
            raise RunFailed("\n".join(problems), hint=f"fsdpctl checkpoints verify {run.root.name}")
        with leased(found[0].path):
            examined = examine(found[0])
            if examined.broken is None:
                yield Taken(examined, tuple(broken))
                return
        if not examined.is_gone:
            broken[examined.path.name] = examined


def examine(stored: Stored) -> Stored:
    """Compare every file with its digest; return the checkpoint with what is wrong with it."""
    broken = stored.broken
    if stored.manifest is not None:
        try:
            verify_files(stored.path, stored.manifest.files.items())
        except InvalidCheckpointError as error:
            broken = str(error)
    return replace(stored, broken=broken, is_gone=broken is not None and not os.path.lexists(stored.path))


def choose_removable(
    found: Sequence[Stored], keep: int, examine: Callable[[Stored], Stored]
) -> tuple[list[Stored], list[Stored]]:
    """Return the checkpoints older than the newest `keep` whole ones, and the broken ones among the newer.

    `found` has the newest first. With fewer than `keep` whole ones, none is removable.
    """
    broken: list[Stored] = []
    whole = 0
    for position, stored in enumerate(found):
        if (examined := examine(stored)).broken is None:
            whole += 1
        else:
            broken.append(examined)
        if whole == keep:
            return list(found[position + 1 :]), broken
    return [], broken


def read_stored(path: Path) -> Stored:
    try:
        return Stored(path, read_manifest(path))
    except InvalidCheckpointError as error:
        return Stored(path, None, str(error))
