from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from fsdpctl.contract import AbortReason, StopReason
from fsdpctl.contract.control_files import (
    ControlFile,
    create_once,
    preallocate,
    read_control_file,
    request_cancel,
    request_stop,
    write_request,
)
from tests.testbed.disks import Mount


def test_the_first_writer_wins(tmp_path: Path) -> None:
    path = tmp_path / "stop"
    assert read_control_file(path) is None
    assert create_once(path, "user", "fsdpctl stop")
    assert not create_once(path, "time")
    assert read_control_file(path) == ControlFile("user", "fsdpctl stop")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("text", ["time the limit is near\n", "preempt\n", "preempt Slurm takes the nodes", "weather"])
def test_a_users_stop_is_added_to_the_schedulers_and_keeps_its_time_and_first_word(text: str, tmp_path: Path) -> None:
    path = tmp_path / "stop"
    path.write_text(text)
    earlier = read_control_file(path)
    assert earlier is not None and not earlier.is_users_stop
    os.utime(path, (1000, 1000))
    for _ in range(2):
        request_stop(path)
        assert read_control_file(path) == ControlFile(StopReason.USER, "fsdpctl stop", earlier)
        assert path.stat().st_mtime == 1000
    assert path.read_text().split()[0] == text.split()[0], "a script reads only this word"
    assert path.read_text().count("user") == 1


@pytest.mark.parametrize("text", ["user fsdpctl stop\n", ""])
def test_a_second_stop_of_a_user_changes_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "stop").write_text(text)
    request_stop(tmp_path / "stop")
    assert (tmp_path / "stop").read_text() == text


def test_a_users_stop_is_added_on_a_full_disk_too(small_disk: Mount) -> None:
    stop = small_disk.path / "stop"
    create_once(stop, StopReason.PREEMPT, "Slurm takes the nodes back")
    small_disk.fill()
    request_stop(stop)
    assert (found := read_control_file(stop)) is not None and found.is_users_stop


def test_no_text_of_an_abort_is_taken_for_a_request(tmp_path: Path) -> None:
    (tmp_path / "abort").write_text("fault node 0: no such account:\nuser root\n")
    assert read_control_file(tmp_path / "abort") == ControlFile("fault", "node 0: no such account:\nuser root")


@pytest.mark.parametrize("before", [None, "fault node 1: out of memory", "lost node 1", "hang rank 2"])
def test_a_cancel_replaces_the_abort_of_a_fault(before: str | None, tmp_path: Path) -> None:
    path = tmp_path / "abort"
    if before is not None:
        path.write_text(before)
    request_cancel(path)
    assert read_control_file(path) == ControlFile(AbortReason.CANCEL, "fsdpctl cancel")


def test_a_cancel_of_slurm_stays(tmp_path: Path) -> None:
    create_once(tmp_path / "abort", AbortReason.CANCEL, "cancelled through Slurm (scancel)")
    request_cancel(tmp_path / "abort")
    assert read_control_file(tmp_path / "abort") == ControlFile("cancel", "cancelled through Slurm (scancel)")


def test_a_cancel_replaces_the_abort_of_a_fault_on_a_full_disk(small_disk: Mount) -> None:
    abort = small_disk.path / "abort"
    create_once(abort, AbortReason.FAULT, "node 0: No space left on device")
    small_disk.fill()
    request_cancel(abort)
    assert (found := read_control_file(abort)) is not None and found.is_cancel


def test_a_touched_file_has_no_cause(tmp_path: Path) -> None:
    (tmp_path / "stop").touch()
    assert read_control_file(tmp_path / "stop") == ControlFile("", "")


def test_a_full_disk_takes_a_users_request_without_a_reason(small_disk: Mount) -> None:
    """And without a spare file, which older runs do not have."""
    small_disk.fill()
    stop, abort = small_disk.path / "stop", small_disk.path / "abort"
    assert write_request(stop, StopReason.USER, "fsdpctl stop")
    assert not write_request(stop, StopReason.USER, "fsdpctl stop")
    assert (found := read_control_file(stop)) is not None and found.is_users_stop
    with pytest.raises(OSError, match="No space left"):
        create_once(abort, AbortReason.FAULT)  # without its cause it would count as a user's request
    assert write_request(abort, AbortReason.CANCEL, "fsdpctl cancel")
    assert (found := read_control_file(abort)) is not None and found.is_cancel
    assert {path.name for path in small_disk.path.iterdir()} == {"ballast", "stop", "abort"}


def test_a_disk_without_inodes_takes_a_users_request(small_disk: Mount) -> None:
    stop, abort = small_disk.path / "stop", small_disk.path / "abort"
    preallocate(stop, abort)
    small_disk.use_up_inodes()
    assert write_request(stop, StopReason.USER, "fsdpctl stop")
    assert not write_request(stop, StopReason.USER, "fsdpctl stop")
    assert read_control_file(stop) == ControlFile(StopReason.USER, "")
    assert write_request(abort, AbortReason.CANCEL, "fsdpctl cancel")
    assert read_control_file(abort) == ControlFile(AbortReason.CANCEL, "")


@pytest.mark.parametrize("cause", [StopReason.TIME, StopReason.PREEMPT])
def test_on_a_full_disk_a_schedulers_stop_is_not_taken_for_a_users(cause: StopReason, small_disk: Mount) -> None:
    stop = small_disk.path / "stop"
    for _ in range(2):
        preallocate(stop, small_disk.path / "abort")
    for spare in small_disk.path.iterdir():
        os.utime(spare, (1.0, 1.0))
    small_disk.fill()
    assert write_request(stop, cause, "Slurm takes the nodes back")
    assert (found := read_control_file(stop)) == ControlFile(cause, "") and found is not None
    assert not found.is_users_stop
    assert stop.stat().st_mtime > 1.0  # when it was created
    assert not write_request(stop, StopReason.USER, "fsdpctl stop")
    stop.unlink()
    assert write_request(stop, StopReason.USER, "fsdpctl stop")
    assert not write_request(stop, cause, "too late")
    assert (found := read_control_file(stop)) is not None and found.is_users_stop


def test_of_concurrent_writers_one_wins(tmp_path: Path) -> None:
    path, won = tmp_path / "abort", []
    threads = [threading.Thread(target=lambda n=n: won.append((create_once(path, f"w{n}"), n))) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [n for ok, n in won if ok]
    assert read_control_file(path) == ControlFile(f"w{winner}", "")
