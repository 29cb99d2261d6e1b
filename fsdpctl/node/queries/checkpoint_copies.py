"""The copies of checkpoints on a node that has a disk of its own: which there are, are they whole, what must go.

    python -m fsdpctl.node.queries.checkpoint_copies list|verify|remove RUN_DIR [NAME ...]

One process per question of the submitting side, the answer as one line of JSON. Without names all copies are meant.
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
from fsdpctl.contract.formats.manifest import (
    InvalidCheckpointError,
    Manifest,
    committed,
    read_manifest,
    remove_checkpoint,
    set_aside,
    verify_files,
    verify_sizes,
)
from fsdpctl.contract.paths import RunPaths, step_of
from fsdpctl.contract.records import Rewind


@dataclass(frozen=True)
class Copy:
    """What claims to be a checkpoint here; `problem` says why it cannot be used."""

    name: str
    manifest: Manifest | None
    problem: str = ""


def look(directory: Path, *, reads_all: bool) -> Copy:
    """Compare a copy with its manifest: the sizes of its files, or every byte."""
    manifest = None
    try:
        manifest = read_manifest(directory)
        (verify_files if reads_all else verify_sizes)(directory, manifest.files.items())
    except InvalidCheckpointError as error:
        return Copy(directory.name, manifest, str(error))
    return Copy(directory.name, manifest)


def remove(directory: Path) -> Copy:
    """The copy that is gone, or why it stays."""
    try:
        remove_checkpoint(directory)
    except OSError as error:
        return Copy(directory.name, None, f"cannot be removed: {error.strerror}")
    return Copy(directory.name, None)


def set_left_behind_aside(run: RunPaths) -> None:
    """Move out of the trainer's sight what the run has gone back behind; a host that was away does so later."""
    rewinds = read_json(tuple[Rewind, ...], run.rewinds) if run.rewinds.exists() else ()
    for name in committed(run.checkpoints) if rewinds else ():
        manifest = look(run.checkpoints / name, reads_all=False).manifest
        rewind = find_rewind(step_of(name), manifest.attempt if manifest else 0, rewinds)
        if rewind is not None:
            set_aside(run.checkpoints / name, run.set_aside(rewind.attempt - 1))


def find_rewind(step: int, attempt: int, rewinds: Sequence[Rewind]) -> Rewind | None:
    """The first going back that has left behind what `attempt` saved after `step`."""
    return next((rewind for rewind in rewinds if attempt < rewind.attempt and step > rewind.step), None)


def main(argv: list[str]) -> list[Copy]:
    parser = argparse.ArgumentParser(prog="fsdpctl.node.queries.checkpoint_copies")
    parser.add_argument("verb", choices=["list", "verify", "remove"])
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("names", nargs="*")
    words = parser.parse_args(argv)
    os.umask(0o077)
    acts: dict[str, Callable[[Path], Copy]] = {
        "list": lambda directory: look(directory, reads_all=False),
        "verify": lambda directory: look(directory, reads_all=True),
        "remove": remove,
    }
    root = RunPaths(words.run_dir).checkpoints
    return [acts[words.verb](root / name) for name in committed(root) if name in words.names or not words.names]


if __name__ == "__main__":
    print(json.dumps(encode(main(sys.argv[1:]))), flush=True)
