"""Leases on checkpoints: respected while they are renewed, and soon forgotten where the reader is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsdpctl.contract.formats import lease
from fsdpctl.contract.formats.lease import EXPIRES_S, LeaseWatch, lease_of, leased

NAME = "step-00000004"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def touch(path: Path, number: int) -> None:
    path.touch()
    os.utime(path, ns=(number, number))  # by whatever clock


def test_a_lease_counts_while_it_changes_and_a_while_longer(tmp_path: Path) -> None:
    clock, path = Clock(), lease_of(tmp_path / NAME)
    watch = LeaseWatch(clock)
    assert watch.find_leased(tmp_path) == set()
    for number in range(3):
        touch(path, number)
        clock.now += 10 * EXPIRES_S  # as long between two saves
        assert watch.find_leased(tmp_path) == {NAME}
    clock.now += EXPIRES_S
    assert watch.find_leased(tmp_path) == {NAME}
    clock.now += 1
    assert watch.find_leased(tmp_path) == set() and not path.exists()


def test_each_reader_has_a_lease_of_its_own(tmp_path: Path) -> None:
    watch = LeaseWatch()
    with leased(tmp_path / NAME):
        with leased(tmp_path / NAME), leased(tmp_path / "step-00000008"):
            assert watch.find_leased(tmp_path) == {NAME, "step-00000008"}
        assert watch.find_leased(tmp_path) == {NAME}
    assert watch.find_leased(tmp_path) == set() and not os.listdir(tmp_path)


def test_a_lease_is_renewed_and_gone_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_S", 0.001)
    with leased(tmp_path / NAME):
        for _ in range(20):
            [path] = tmp_path.glob("*.lease-*")
            path.unlink()  # as retention does with one that was not renewed in time
            while not path.exists():
                pass
    assert not os.listdir(tmp_path)


def test_a_directory_in_which_nothing_can_be_written_is_read_all_the_same(tmp_path: Path) -> None:
    with leased(tmp_path / "gone" / NAME):
        pass
