"""What a node may run out of, read from files as kernels with either version of cgroups show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.records import Resources
from fsdpctl.node.os import resources
from fsdpctl.node.os.resources import ResourceWatch

GIB = 2**30
NEW = {"memory.events": "low 0\noom 1\noom_kill {kills}\n", "memory.max": f"{4 * GIB}\n", "memory.peak": f"{3 * GIB}\n"}
OLD = {
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n",
    "memory.limit_in_bytes": f"{4 * GIB}\n",
    "memory.max_usage_in_bytes": f"{3 * GIB}\n",
}


def write(directory: Path, files: dict[str, str], kills: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text.format(kills=kills))


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(resources, "PROC", tmp_path / "proc")
    monkeypatch.setattr(resources, "CGROUPS", tmp_path / "cgroup")
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "vmstat").write_text("pgfault 7\noom_kill 2\n")
    return tmp_path / "proc"


@pytest.mark.parametrize(
    ("line", "directory", "files"),
    [
        ("0::/slurm/step", "slurm/step", NEW),
        ("0::/\n4:memory:/slurm/step", "memory/slurm/step", OLD),
        ("0::/not/shown/in/the/container", ".", NEW),
    ],
    ids=["version 2", "version 1", "container"],
)
def test_kills_are_counted_from_the_begin_of_the_attempt(
    line: str, directory: str, files: dict[str, str], proc: Path, tmp_path: Path
) -> None:
    (proc / "self" / "cgroup").write_text(f"{line}\n")
    write(tmp_path / "cgroup" / directory, files, kills=5)
    watch = ResourceWatch.begin()
    write(tmp_path / "cgroup" / directory, files, kills=6)
    (proc / "vmstat").write_text("oom_kill 4\n")
    found = watch.read(tmp_path)
    assert (found.oom_kills, found.host_oom_kills) == (1, 2)
    assert (found.memory_limit, found.memory_peak, found.is_disk_full) == (4 * GIB, 3 * GIB, False)


def test_no_limit_is_none_and_so_is_what_cannot_be_read(proc: Path, tmp_path: Path) -> None:
    (proc / "self" / "cgroup").write_text("0::/\n")
    write(tmp_path / "cgroup", {"memory.max": "max\n", "memory.events": "damaged\n"}, kills=0)
    (proc / "vmstat").unlink()
    found = ResourceWatch.begin().read(tmp_path)
    assert found == Resources(shm_free=found.shm_free)
