"""A directory behind a URL of fsspec. Libraries of object storage raise what they like: here it gets one type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from fsdpctl.contract.data_url import find_problem
from fsdpctl.contract.formats.dataset import INDEX_NAME
from fsdpctl.errors import install_hint

READ_AHEAD = 16 * 2**20
"""Bytes of one request while a file is read."""


_OBJECT_STORAGE = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss")


class RemoteDataError(Exception):
    """Data behind a URL cannot be used. The text has no secrets: credentials are never part of a URL."""

    def __init__(self, message: str, *, hint: str | None = None, is_lasting: bool = True) -> None:
        super().__init__(message)
        self.hint = hint
        self.is_lasting = is_lasting  # another attempt would fail in the same way

    def __str__(self) -> str:
        return f"{self.args[0]}; {self.hint}" if self.hint else str(self.args[0])


class Location:
    """A directory of one data set. Creating it contacts no server."""

    def __init__(self, url: str) -> None:
        if (problem := find_problem(url)) is not None:
            raise RemoteDataError(problem)
        self.url = url.rstrip("/")
        self._files, self._root = _open(self.url)
        # Object storage has none: making one would make a bucket of a misspelled name.
        self._has_directories = self.url.partition("://")[0] not in _OBJECT_STORAGE

    def read(self, name: str) -> bytes:
        """Return a small file. Raise RemoteDataError."""
        with self._named(name):
            return cast(bytes, self._files.cat_file(f"{self._root}/{name}"))

    def blocks(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the content of a large file. Raise RemoteDataError; what the caller raises stays as it is."""
        with self._named(name):
            file = self._files.open(f"{self._root}/{name}", "rb", block_size=READ_AHEAD, cache_type="readahead")
        try:
            while True:
                with self._named(name):
                    block = cast(bytes, file.read(size))
                if not block:
                    return
                yield block
        finally:
            file.close()

    def exists(self, name: str) -> bool:
        with self._named(name):
            self._files.invalidate_cache()
            return bool(self._files.exists(f"{self._root}/{name}"))

    def write(self, name: str, source: Path) -> None:
        """Store a file under `name`: readers see all of it or none. Raise RemoteDataError."""
        with self._named(name):
            if self._has_directories:
                self._files.makedirs(self._root, exist_ok=True)
            self._files.put_file(str(source), f"{self._root}/{name}")
            self._files.invalidate_cache()
            stored = self._files.info(f"{self._root}/{name}")["size"]
        if stored != (size := source.stat().st_size):
            raise RemoteDataError(f"{self.url}/{name} has {stored:,} bytes after {size:,} were sent", is_lasting=False)

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Turn whatever a library raises into RemoteDataError, with the name of the file."""
        try:
            yield
        except RemoteDataError:
            raise
        except Exception as error:
            raise _explain(f"{self.url}/{name}", error) from None


def _open(url: str) -> tuple[Any, str]:
    """Return the file system and the path within it."""
    protocol = url.partition("://")[0]
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise RemoteDataError(f"{url} needs the package fsspec", hint=_install(protocol)) from None
    try:
        files, root = url_to_fs(url)
    except ImportError as error:
        raise RemoteDataError(f"{url}: {error}", hint=_install(protocol)) from None
    except ValueError as error:
        raise RemoteDataError(f"{url}: {error}") from None
    except Exception as error:
        raise _explain(url, error) from None
    return files, root


def _install(protocol: str) -> str | None:
    return install_hint("s3") if protocol in ("s3", "s3a") else None


def _explain(where: str, error: Exception) -> RemoteDataError:
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, FileNotFoundError):
        hint = "`fsdpctl data prepare TEXT... --out URL` writes data there" if where.endswith(INDEX_NAME) else None
        return RemoteDataError(f"{where}: there is no such file", hint=hint)
    if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        return RemoteDataError(
            f"{where}: access is refused ({text})",
            hint="set the credentials in the environment of the ranks, or give the nodes a role",
        )
    return RemoteDataError(f"{where}: {text}", is_lasting=isinstance(error, NotImplementedError))
