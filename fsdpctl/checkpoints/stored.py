"""The checkpoints of a run directory, as they lie there."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.checkpoint import InvalidCheckpointError, Manifest, committed, read_manifest, verify_files
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.errors import RunFailed, UsageError
from fsdpctl.runs.evidence import read_plan


@dataclass(frozen=True)
class Stored:
    """One checkpoint; `manifest` is None where `broken` says why it cannot be used."""

    path: Path
    manifest: Manifest | None
    broken: str | None = None


def list_checkpoints(run: RunPaths) -> list[Stored]:
    """All checkpoints of a run, the newest first; of the files only the manifests are read."""
    return [_look(run.checkpoints / name) for name in committed(run.checkpoints)[::-1]]


def require_files(run: RunPaths) -> None:
    """Raise UsageError where the checkpoints lie on the nodes, and only their manifests here."""
    try:
        plan = read_plan(run)
    except (OSError, CodecError):
        return  # a damaged run may have whole checkpoints
    if not plan.shared_disk:
        node = plan.nodes[0]
        raise UsageError(
            f"the nodes of run {run.root.name} share no disk: each keeps the checkpoints on its own",
            hint=f"scp -r {node.address}:{run.checkpoints} . brings those of {node.id}",
        )


def choose_listed(run: RunPaths, step: int | None) -> list[Stored]:
    """The checkpoint of `step`, or all of them, the newest first; whole or not, but at least one."""
    found = list_checkpoints(run)
    if step is not None:
        found = [stored for stored in found if stored.path.name == checkpoint_name(step)]
    if not found:
        which = "checkpoint yet" if step is None else f"checkpoint of step {step}"
        raise UsageError(f"run {run.root.name} has no {which}", hint=f"fsdpctl checkpoints ls {run.root.name}")
    return found


def choose_whole(run: RunPaths, step: int | None) -> Stored:
    """The checkpoint of `step`, or the newest one that is whole; of either, every byte was read."""
    problems = []
    for stored in choose_listed(run, step):
        if (problem := find_damage(stored)) is None:
            return stored
        problems.append(f"{stored.path.name}: {problem}")
    raise RunFailed("\n".join(problems), hint=f"fsdpctl checkpoints verify {run.root.name}")


def find_damage(stored: Stored) -> str | None:
    """Read every file and compare it with its digest; returns what is wrong."""
    if stored.manifest is None:
        return stored.broken
    try:
        verify_files(stored.path, stored.manifest.files.items())
    except InvalidCheckpointError as error:
        return str(error)
    return None


def choose_doomed(found: Sequence[Stored], keep: int) -> tuple[list[Stored], list[Stored]]:
    """Of checkpoints, the newest first: those older than the newest `keep` whole ones, and the damaged among the newer.

    Fewer than `keep` whole ones: nothing is doomed.
    """
    damaged: list[Stored] = []
    whole = 0
    for position, stored in enumerate(found):
        if find_damage(stored) is None:
            whole += 1
        else:
            damaged.append(stored)
        if whole == keep:
            return list(found[position + 1 :]), damaged
    return [], damaged


def remove(stored: Stored) -> None:
    """Half removed, it must not look like a checkpoint."""
    doomed = stored.path.with_name(f"{stored.path.name}.tmp-pruned")
    stored.path.rename(doomed)
    shutil.rmtree(doomed)


def _look(path: Path) -> Stored:
    try:
        return Stored(path, read_manifest(path))
    except InvalidCheckpointError as error:
        return Stored(path, None, str(error))
