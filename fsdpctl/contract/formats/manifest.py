"""A checkpoint on disk: `checkpoints/step-N/` with files of tensors and a manifest, which is written last.

The manifest describes the run and the step, and has the digest of every file. Without it there is no checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.contract.codec import CodecError, decode, encode, write_text
from fsdpctl.contract.files import NOT_THERE, PASSING, open_file, read_bytes
from fsdpctl.contract.paths import CHECKPOINT_MANIFEST, CHECKPOINT_PREFIX, DIR_MODE, checkpoint_name

MANIFEST_FORMAT = 1

COMMITTED = re.compile(rf"{CHECKPOINT_PREFIX}\d{{8,}}")
"""Names of finished checkpoints. Half done ones have a longer name."""


class InvalidCheckpointError(Exception):
    """This directory is no checkpoint to start from; the text is the reason."""


class UnreadableCheckpointError(InvalidCheckpointError):
    """The disk returned `error` for one of its files, which may be intact."""

    def __init__(self, text: str, error: OSError) -> None:
        super().__init__(text, error)
        self.error = error

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def passes(self) -> bool:
        """Whether the files may be read later."""
        return self.error.errno in PASSING


@dataclass(frozen=True)
class FileDigest:
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The state that a checkpoint has saved, and the files of which it consists."""

    format: int
    step: int
    attempt: int
    world: int
    mesh: tuple[int, ...]  # replicate, shard
    config: Mapping[str, Any]  # TrainerConfig, encoded
    data_fingerprint: str
    torch_version: str
    time: float
    files: Mapping[str, FileDigest]
    save_s: float = 0.0  # duration of writing, up to this manifest; 0: not known

    @property
    def num_bytes(self) -> int:
        return sum(entry.size for entry in self.files.values())


SAVE_MARGIN, EXIT_S = 1.2, 1.0


def save_fits(save_s: float, left_s: float) -> bool:
    """Return whether a save that took `save_s` the last time (0: not known) fits into `left_s`, with time to exit."""
    return save_s == 0 or save_s * SAVE_MARGIN + EXIT_S <= left_s


def committed(root: Path) -> list[str]:
    """Return the names of finished checkpoints, the oldest first. They may still be damaged. Raise OSError."""
    try:
        return choose_committed(os.listdir(root))
    except (FileNotFoundError, NotADirectoryError):
        return []


def choose_committed(names: Iterable[str]) -> list[str]:
    """Return those that are names of finished checkpoints, the oldest first."""
    return sorted((name for name in names if COMMITTED.fullmatch(name)), key=lambda name: (len(name), name))


def set_aside(directory: Path, aside: Path) -> None:
    """Move a checkpoint to where the trainer does not look: the run has gone back to an older one."""
    aside.mkdir(mode=DIR_MODE, exist_ok=True)
    if directory.is_symlink():  # a relative link would lead elsewhere from there
        (aside / directory.name).symlink_to(directory.resolve())
        directory.unlink()
    else:
        directory.rename(aside / directory.name)


def digest_file(path: Path) -> FileDigest:
    """Return size and SHA-256 of a file. Raises OSError."""
    with open_file(path) as file:
        return FileDigest(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest durably, with a digest of its own."""
    body = encode(manifest)
    text = json.dumps({"manifest": body, "sha256": _digest_of(body)}, indent=1)
    write_text(directory / CHECKPOINT_MANIFEST, text + "\n")


def read_manifest(directory: Path) -> Manifest:
    """Read and check the manifest alone; `verify_files` checks the files. Raises InvalidCheckpointError."""
    path = directory / CHECKPOINT_MANIFEST
    try:
        document = json.loads(read_bytes(path).decode())
        body, digest = document["manifest"], document["sha256"]
        if _digest_of(body) != digest:
            raise InvalidCheckpointError("the manifest was changed after it was written")
        manifest = decode(Manifest, body)
    except FileNotFoundError:
        raise InvalidCheckpointError("it has no manifest") from None
    except OSError as error:
        raise _read_error(f"unreadable manifest: {type(error).__name__}: {error}", error) from None
    except (CodecError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidCheckpointError(f"unreadable manifest: {type(error).__name__}: {error}") from None
    if manifest.format > MANIFEST_FORMAT:
        raise InvalidCheckpointError(
            f"manifest format {manifest.format} is newer than this version's {MANIFEST_FORMAT}"
        )
    if checkpoint_name(manifest.step) != directory.name:
        raise InvalidCheckpointError(f"the manifest is of step {manifest.step}")
    return manifest


def verify_sizes(directory: Path, files: Iterable[tuple[str, FileDigest]]) -> None:
    """Compare the size of each file with the manifest. Raises InvalidCheckpointError."""
    for name, expected in files:
        if Path(name).name != name:
            raise InvalidCheckpointError(f"{name!r} is no plain file name")
        try:
            size = (directory / name).stat().st_size
        except OSError as error:
            raise _read_error(f"{name}: {error.strerror}", error) from None
        if size != expected.size:
            raise InvalidCheckpointError(f"{name} has {size} bytes, {expected.size} in the manifest")


def verify_files(directory: Path, files: Iterable[tuple[str, FileDigest]]) -> None:
    """Compare size and digest of each file with the manifest. Raises InvalidCheckpointError."""
    for name, expected in files:
        verify_sizes(directory, [(name, expected)])
        try:
            if digest_file(directory / name) != expected:
                raise InvalidCheckpointError(f"{name} does not have the digest in the manifest")
        except OSError as error:
            raise _read_error(f"{name}: {error.strerror}", error) from None


def _read_error(text: str, error: OSError) -> InvalidCheckpointError:
    return InvalidCheckpointError(text) if error.errno in NOT_THERE else UnreadableCheckpointError(text, error)


def _digest_of(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
