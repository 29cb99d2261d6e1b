"""What a fork server has read: only where all of it is still the same may another attempt use it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fsdpctl.contract.paths import RunPaths

_OF_A_LOGIN = ("SLURM_", "SSH_", "XDG_", "FSDPCTL_")
"""Variables of a job step or of a connection differ at each attempt; nothing that is imported reads them."""
_RUN_DIR = "<run>"
_OF_A_SHELL = {"_", "SHLVL", "PWD", "OLDPWD", "INVOCATION_ID", "JOURNAL_STREAM"}


def warm_key(command: Sequence[str], env: Mapping[str, str], run: RunPaths) -> str:
    """Return a digest of the command, the environment and the code of a fork server: equal for an equal copy of the
    code in another run.
    """
    kept = {
        name: value.replace(str(run.root), _RUN_DIR)
        for name, value in env.items()
        if not name.startswith(_OF_A_LOGIN) and name not in _OF_A_SHELL
    }
    files = sorted(entry for package in run.packages() for entry in _files(package, run.code))
    return hashlib.sha256(json.dumps([list(command), kept, files], sort_keys=True).encode()).hexdigest()


def _files(directory: Path, code: Path) -> Iterator[tuple[str, str]]:
    """Yield path and digest of each source file below: copies for hosts without a shared disk have other times."""
    for root, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for path in (Path(root) / name for name in names):
            yield str(path.relative_to(code)), hashlib.sha256(path.read_bytes()).hexdigest()
