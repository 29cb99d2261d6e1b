"""Fast and slow tests: one marker, and a limit of processor time for every test that does not carry it."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

SLOW_FOLDERS = [Path(__file__).with_name(name) for name in ("backends", "testbed", "train")]
"""Every test in them starts servers or ranks."""
FAST_CPU_S = 4.0
"""Processor time that a test without the marker may take. Wall time would fail tests on a busy machine."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing of the slow folders, torch above all, where no slow test will run."""
    return True if collection_path in SLOW_FOLDERS and config.option.markexpr == "not slow" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in SLOW_FOLDERS):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def is_fast_or_marked_slow(request: pytest.FixtureRequest) -> Iterator[None]:
    before, older = _cpu_s(), _children_cpu_s()
    yield
    spent = _cpu_s() - before
    if spent > FAST_CPU_S:  # also the whole time of an earlier test's child, where it was waited for only now
        left = _children_cpu_s()
        spent -= sum(used for pid, used in older.items() if pid not in left)
    if spent > FAST_CPU_S and "slow" not in request.keywords:
        pytest.fail(f"{spent:.1f} s of processor time: mark the test slow, or make it faster")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return one more worker than cores, or three where slow tests run, for those wait half of their time; None for
    xdist's own rule."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return (os.cpu_count() or 1) + (1 if config.option.markexpr == "not slow" else 3)


def _cpu_s() -> float:
    """Return the processor time of this process and of the children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _children_cpu_s() -> dict[int, float]:
    """Return the processor time of each child of this process that was not waited for, by its pid."""
    used = {}
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread or the child has ended meanwhile
            for pid in map(int, children.read_text().split()):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                used[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # its own and its children's
    return used
