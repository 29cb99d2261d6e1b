"""Write a file to the disk, and read one back past this node's page cache where that is possible."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.benchmarks import ReadWay

BLOCK = 8 * 2**20
MAX_S = 20.0
"""A slow disk is written and read for so long only."""
FEW_PAGES = 0.01


@dataclass(frozen=True)
class Measured:
    """What one rank has written or read, and how long that took."""

    num_bytes: int
    seconds: float


def write_file(descriptor: int, size: int) -> Measured:
    """Write up to `size` random bytes, which no disk can compress, and flush them."""
    block = os.urandom(min(BLOCK, size))
    start = time.perf_counter()
    written = 0
    while written < size and time.perf_counter() - start < MAX_S:
        written += os.write(descriptor, block[: size - written])
    os.fsync(descriptor)
    seconds = time.perf_counter() - start
    drop_cache(descriptor)
    return Measured(written, seconds)


def read_file(path: Path) -> tuple[Measured, ReadWay]:
    """Read a whole file, and return what answered: with O_DIRECT, else after its pages were dropped from the cache."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:  # EINVAL: not on this file system
        return _read_buffered(path)
    try:
        return _read(descriptor), ReadWay.DIRECT
    except OSError:
        return _read_buffered(path)
    finally:
        os.close(descriptor)


def _read_buffered(path: Path) -> tuple[Measured, ReadWay]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        drop_cache(descriptor)
        way = ReadWay.CACHED if cached_share(descriptor) > FEW_PAGES else ReadWay.DROPPED
        return _read(descriptor), way
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> Measured:
    with mmap.mmap(-1, BLOCK) as block:  # at the beginning of a page, as O_DIRECT needs it
        start = time.perf_counter()
        total = 0
        while (count := os.preadv(descriptor, [block], total)) and time.perf_counter() - start < MAX_S:
            total += count
        return Measured(total, time.perf_counter() - start)


def drop_cache(descriptor: int) -> None:
    """Drop the clean pages of a file from this node's page cache."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def cached_share(descriptor: int) -> float:
    """Return which part of a file is in this node's page cache; 1 if the kernel does not report it."""
    size = os.fstat(descriptor).st_size
    pages = -(-size // mmap.PAGESIZE)
    if not pages:
        return 0.0
    libc = ctypes.CDLL(None, use_errno=True)
    seen = (ctypes.c_ubyte * pages)()
    with mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        failed = libc.mincore(ctypes.byref(start), ctypes.c_size_t(size), seen)
        del start  # or the mapping could not be closed
    return 1.0 if failed else sum(page & 1 for page in seen) / pages
