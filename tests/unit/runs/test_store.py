from __future__ import annotations

import errno
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import BusyError, DamagedRegistryWarning, FsdpctlError, UsageError
from fsdpctl.runs.find import find_run
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root, home
from fsdpctl.runs.store import claim_attempt, claim_run_id, create, list_runs, locked, run_ids
from tests.processor_time import done_within


def make(run_id: str, job: str = "llm", created: float = 1.0, root: Path | None = None) -> RunPaths:
    record = RunRecord.new(run_id, job, "local", "local", created, 2)
    return create(root or default_runs_root(), record, lambda run: None)


def test_runs_are_found_from_anywhere_the_newest_first(tmp_path: Path) -> None:
    make("llm-aaaa", created=1)
    make("llm-bbbb", created=3, root=tmp_path / "elsewhere")
    make("other-cccc", job="other", created=2)
    assert [run.run_id for run in list_runs()] == ["llm-bbbb", "other-cccc", "llm-aaaa"]


@pytest.mark.parametrize(
    ("word", "found"),
    [(None, "llm-bbbb"), ("llm-aaaa", "llm-aaaa"), ("llm", "llm-bbbb"), ("other", "other-cccc"), ("llm-a", "llm-aaaa")],
)
def test_a_run_has_many_names(word: str | None, found: str) -> None:
    make("llm-aaaa", created=1)
    make("llm-bbbb", created=3)
    make("other-cccc", job="other", created=2)
    assert find_run(word).root.name == found


def test_an_ambiguous_name_is_refused() -> None:
    with pytest.raises(UsageError, match="no runs yet"):
        find_run(None)
    make("llm-aaaa")
    make("llm-aabb")
    with pytest.raises(UsageError, match="'llm-aa' could be"):
        find_run("llm-aa")
    with pytest.raises(UsageError, match="no run 'zzz'"):
        find_run("zzz")


def test_a_failed_create_leaves_nothing() -> None:
    def fail(run: RunPaths) -> None:
        run.plan.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        create(default_runs_root(), RunRecord.new("llm-aaaa", "llm", "local", "local", 1.0, 1), fail)
    assert list(default_runs_root().iterdir()) == []
    assert list_runs() == []


def test_a_create_killed_before_the_rename_is_no_run() -> None:
    run = make("llm-aaaa")
    shutil.rmtree(run.root)
    assert list_runs() == []


def test_an_unmounted_root_is_reported(tmp_path: Path) -> None:
    make("llm-aaaa", root=tmp_path / "mount")
    make("llm-bbbb")
    shutil.rmtree(tmp_path / "mount")
    assert [(run.run_id, run.broken) for run in list_runs()] == [
        ("llm-bbbb", None),
        ("llm-aaaa", f"{tmp_path / 'mount'} is not there"),
    ]


@pytest.mark.parametrize("garbage", [b"\xff\n", b"\0\n", b"", b"/dev/null\n"])
def test_a_pointer_of_garbage_hides_no_run(garbage: bytes) -> None:
    run = make("llm-aaaa")
    (home() / "registry" / "llm-bbbb").write_bytes(garbage)
    assert [found.run_id for found in list_runs() if found.broken is None] == ["llm-aaaa"]
    assert "llm-aaaa" in run_ids()
    assert find_run(None) == run


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_run_whose_pointer_is_damaged_is_found_by_its_directory(elsewhere: bool, tmp_path: Path) -> None:
    root = tmp_path / "elsewhere" if elsewhere else None
    run, _ = make("llm-aaaa", root=root), make("llm-bbbb", root=root)
    pointer = home() / "registry" / "llm-aaaa"
    whole = pointer.read_bytes()
    cuts = [whole[:length] for length in range(len(whole) - 1)]
    for damaged in (*cuts, b"\xff" + whole[1:], whole.replace(b"aaaa", b"aaxa"), b"/nowhere/llm-aaaa\n", None):
        pointer.unlink()
        if damaged is None:
            pointer.mkdir()
        else:
            pointer.write_bytes(damaged)
        assert sorted(run_ids()) == ["llm-aaaa", "llm-bbbb"]
        said = (
            "was damaged; it leads to .*/llm-aaaa again" if damaged is not None else "is damaged and cannot be written"
        )
        with pytest.warns(DamagedRegistryWarning, match=said):
            assert find_run("llm-aaaa") == run
        if damaged is not None:
            assert pointer.read_bytes() == whole
            assert len(list_runs()) == 2, "without a warning"


def test_a_run_that_is_not_found_by_a_damaged_pointer_is_listed_and_a_deleted_one_is_not(tmp_path: Path) -> None:
    run, pointer = make("llm-aaaa", root=tmp_path / "elsewhere"), home() / "registry" / "llm-aaaa"
    whole = pointer.read_text()
    pointer.write_text(whole[:-3])
    (listed,) = list_runs()
    assert listed.broken is not None and listed.broken.startswith(f"{pointer} is damaged; write the path")
    with pytest.raises(FsdpctlError, match=r"llm-aaaa cannot be read: .* is damaged"):
        find_run("llm-aaaa")
    pointer.write_text(whole)
    shutil.rmtree(run.root)
    assert list_runs() == []


def test_a_newer_record_is_not_touched() -> None:
    run = make("llm-aaaa")
    record = json.loads(run.record.read_text())
    run.record.write_text(json.dumps({**record, "schema": 99}))
    (listed,) = list_runs()
    assert listed.broken is not None
    assert "newer fsdpctl (schema 99" in listed.broken
    with pytest.raises(FsdpctlError, match="cannot be read"):
        find_run("llm-aaaa")
    attempt = claim_attempt(run)
    with pytest.raises(FsdpctlError, match=f"if it still runs, `touch {attempt.abort}` ends it"):
        find_run("llm-aaaa")


def test_old_debris_is_cleared_and_fresh_work_is_not() -> None:
    root = default_runs_root()
    for name, age_s in ((".new-old-1", 200_000), (".new-fresh-2", 0)):
        (root / name).mkdir(parents=True)
        os.utime(root / name, (time.time() - age_s,) * 2)
    make("llm-aaaa")
    assert sorted(path.name for path in root.iterdir()) == [".new-fresh-2", "llm-aaaa"]


def test_the_directory_of_another_submit_may_vanish_while_debris_is_cleared() -> None:
    default_runs_root().mkdir(parents=True)
    (default_runs_root() / ".new-done-1").symlink_to("gone")  # listed, but it does not exist any more
    assert make("llm-aaaa").root.is_dir()


def test_the_lock_is_exclusive_and_released_when_its_owner_dies() -> None:
    run = make("llm-aaaa")
    ready, release = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with locked(run):
            os.write(ready[1], b".")
            os.read(release[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    with pytest.raises(BusyError), locked(run):
        pass
    os.kill(child, 9)
    os.waitpid(child, 0)
    with locked(run):
        pass


def test_a_disk_without_locks_is_not_reported_as_another_command(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make("llm-aaaa")

    def refuse(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.lockf", refuse)
    with pytest.raises(OSError, match=f"No locks available: '{run.lock}'"), locked(run):
        pass


def test_run_ids_do_not_clash(monkeypatch: pytest.MonkeyPatch) -> None:
    make("llm-aaaa")
    drawn = iter(["llm-aaaa", "llm-bbbb"])
    monkeypatch.setattr("fsdpctl.runs.store.new_run_id", lambda job: next(drawn))
    assert claim_run_id("llm", default_runs_root()) == "llm-bbbb"


def test_listing_stays_quick() -> None:
    for number in range(300):
        make(f"llm-{number:04d}", created=number)
    assert len(done_within(0.3, list_runs)) == 300
