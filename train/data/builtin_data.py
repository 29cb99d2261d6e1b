"""`data: builtin`: real text that every machine has, the sources of Python's standard library, as bytes.

Prepared on first use into `$FSDPCTL_HOME/data/builtin-<fingerprint>`. Several processes may do so at once: each
writes a directory of its own, the first to finish renames it into place, and the others use that one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from fsdpctl.contract import Env
from fsdpctl.contract.formats.dataset import FORMAT, INDEX_NAME, Split, split_of
from fsdpctl.contract.trainer.trainer_config import BUILTIN_VOCAB
from train.data.tokens import TokenArray, write_dataset

EXCLUDED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
SEPARATOR = b"\0"  # between documents; no Python source holds it


def prepare_builtin(env: Mapping[str, str], val_fraction: float) -> Path:
    """Return the directory with the prepared corpus, after preparing it if it does not exist. Raises OSError."""
    documents = read_documents(Path(sysconfig.get_paths()["stdlib"]))
    fingerprint = fingerprint_of(documents, val_fraction)
    home = Path(env.get(Env.HOME) or Path.home() / ".local/state/fsdpctl")
    target = home / "data" / f"builtin-{fingerprint}"
    if (target / INDEX_NAME).exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        write_dataset(
            temporary,
            _with_progress(documents, val_fraction),
            source=f"standard library of Python {sys.version.split()[0]}, {len(documents)} files, as bytes",
            fingerprint=fingerprint,
            dtype="uint16",
            vocab_size=BUILTIN_VOCAB,
        )
        temporary.rename(target)
    except OSError:
        if not (target / INDEX_NAME).exists():  # else another process was first, with the same bytes
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def read_documents(root: Path) -> dict[str, bytes]:
    """Read all Python files below `root` but tests and installed packages: relative name -> text, sorted by name."""
    documents = {}
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in EXCLUDED]
        for path in (Path(folder, name) for name in files if name.endswith(".py")):
            documents[path.relative_to(root).as_posix()] = path.read_bytes()
    return dict(sorted(documents.items()))


def fingerprint_of(documents: Mapping[str, bytes], val_fraction: float) -> str:
    """Return the digest of all that decides the tokens and their split."""
    digest = hashlib.sha256(f"{FORMAT} {val_fraction!r}".encode())
    for name, text in documents.items():
        digest.update(f"\n{name} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()[:32]


def _with_progress(documents: Mapping[str, bytes], val_fraction: float) -> Iterator[tuple[Split, TokenArray]]:
    total, done = sum(map(len, documents.values())), 0
    reported = time.monotonic()
    for name, text in documents.items():
        yield split_of(name.encode(), val_fraction), np.frombuffer(text + SEPARATOR, dtype=np.uint8)
        done += len(text)
        if time.monotonic() - reported > 1:
            reported = time.monotonic()
            print(f"preparing the builtin corpus: {done / total:.0%} of {total / 1e6:.1f} MB", file=sys.stderr)
