"""List, verify and remove the copies of checkpoints on a node that has its own disk.

    python -m fsdpctl.node.queries.checkpoint_copies list|verify|remove RUN_DIR [NAME ...]

One process per query of the submitting side, the answer as one line of JSON. The default are all copies.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.codec import encode, read_json
from fsdpctl.contract.formats.lease import find_leases, leased
from fsdpctl.contract.formats.manifest import (
    InvalidCheckpointError,
    Manifest,
    committed,
    read_manifest,
    set_aside,
    verify_files,
    verify_sizes,
)
from fsdpctl.contract.formats.removal import remove_checkpoint
from fsdpctl.contract.paths import RunPaths, step_of
from fsdpctl.contract.records import Rewind


@dataclass(frozen=True)
class HostCopy:
    """A node's copy of a checkpoint; `problem` is the reason if it cannot be used."""

    name: str
    manifest: Manifest | None
    problem: str = ""
    left: str = ""  # the directory that is still there after a removal, if the copy was a link


def look(directory: Path, *, reads_all: bool) -> HostCopy:
    """Compare a copy with its manifest: the sizes of its files, or with `reads_all` every byte."""
    manifest = None
    try:
        manifest = read_manifest(directory)
        (verify_files if reads_all else verify_sizes)(directory, manifest.files.items())
    except InvalidCheckpointError as error:
        return HostCopy(directory.name, manifest, str(error))
    return HostCopy(directory.name, manifest)


def verify(directory: Path) -> HostCopy:
    """Compare every byte of a copy with its manifest, while the run's retention leaves it alone."""
    with leased(directory):
        return look(directory, reads_all=True)


def remove(directory: Path) -> HostCopy:
    """Remove a copy; return it, with `problem` if that failed, or a command reads it."""
    if directory.name in find_leases(directory.parent):
        return HostCopy(directory.name, None, "it is being read")
    try:
        left = remove_checkpoint(directory)
    except OSError as error:
        return HostCopy(directory.name, None, f"cannot be removed: {error.strerror}")
    return HostCopy(directory.name, None, left=str(left or ""))


def set_aside_rewound(run: RunPaths) -> None:
    """Move the checkpoints that rewinds of the run have discarded to where the trainer does not look.

    Runs before each start of an agent, so that a host that was unreachable at the rewind catches up.
    """
    rewinds = read_json(tuple[Rewind, ...], run.rewinds) if run.rewinds.exists() else ()
    for name in committed(run.checkpoints) if rewinds else ():
        manifest = look(run.checkpoints / name, reads_all=False).manifest
        rewind = find_rewind(step_of(name), manifest.attempt if manifest else 0, rewinds)
        if rewind is not None:
            set_aside(run.checkpoints / name, run.set_aside(rewind.attempt - 1))


def find_rewind(step: int, attempt: int, rewinds: Sequence[Rewind]) -> Rewind | None:
    """Return the first rewind that discards the checkpoint that `attempt` saved at `step`; None if none does."""
    return next((rewind for rewind in rewinds if attempt < rewind.attempt and step > rewind.step), None)


def main(argv: list[str]) -> list[HostCopy]:
    parser = argparse.ArgumentParser(prog="fsdpctl.node.queries.checkpoint_copies")
    parser.add_argument("verb", choices=["list", "verify", "remove"])
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args(argv)
    os.umask(0o077)
    verbs: dict[str, Callable[[Path], HostCopy]] = {
        "list": lambda directory: look(directory, reads_all=False),
        "verify": verify,
        "remove": remove,
    }
    root = RunPaths(args.run_dir).checkpoints
    copies = [verbs[args.verb](root / name) for name in committed(root) if name in args.names or not args.names]
    # A run that is alive removes old ones meanwhile.
    return [copy for copy in copies if args.verb == "remove" or not copy.problem or os.path.lexists(root / copy.name)]


if __name__ == "__main__":
    print(json.dumps(encode(main(sys.argv[1:]))), flush=True)
