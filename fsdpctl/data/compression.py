"""Compressed files, by their suffix. They can only be read from the start."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, BinaryIO

from fsdpctl.errors import UsageError, install_hint

SUFFIXES = (".gz", ".zst")
_BUFFER = 2**20


def is_compressed(path: str) -> bool:
    return PurePath(path).suffix in SUFFIXES


@contextmanager
def open_plain(path: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Yield a file as (stored, decompressed) streams. Raise UsageError for every error of opening and reading."""
    errors: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
    try:
        with open(path, "rb", buffering=_BUFFER) as raw:
            if path.endswith(".gz"):
                yield raw, io.BufferedReader(gzip.GzipFile(fileobj=raw), _BUFFER)
            elif path.endswith(".zst"):
                zstd = import_zstd()
                errors = (*errors, zstd.ZstdError)
                yield raw, io.BufferedReader(zstd.ZstdFile(raw), _BUFFER)
            else:
                yield raw, raw
    except errors as error:
        raise UsageError(f"input {path}: {getattr(error, 'strerror', None) or error}") from None


def import_zstd() -> Any:
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            raise UsageError(".zst input needs the extra zstd", hint=install_hint("zstd")) from None
    return zstd
