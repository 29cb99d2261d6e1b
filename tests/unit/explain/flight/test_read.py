"""The records that ranks leave in the directory of an attempt: their own, else what torch dumped at a time-out."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.flight_record import FlightEntry, FlightGroup, FlightRecord
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.explain.flight import read
from fsdpctl.explain.flight.finding import FlightKind
from fsdpctl.explain.flight.read import find_mismatch
from tests.unit.contract.formats.test_flight_dump import dump, entry

DONE = entry(1, profiling_name="nccl:all_reduce")
WAITS = entry(2, profiling_name="nccl:all_reduce", state="started", retired=False)
OWN = FlightRecord(
    (FlightGroup("nccl", "0", "default_pg", (0, 1)),),
    (FlightEntry(0, "all_reduce", 1, False, True, ("Float[3]",), ("Float[4,3]",), 0),),
    ("/run/train.py:7 step",),
)
STACKS = """Current thread 0x00007f (most recent call first):
  File "/run/data.py", line 88 in next_batch
  File "/run/train.py", line 3 in <module>
"""


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    """Two nodes with one rank each: the first waits, by torch's dump; the second has not entered it."""
    found = AttemptPaths(tmp_path / "run/attempts/1")
    for rank in range(2):
        found.node(rank).root.mkdir(parents=True)
        found.node(rank).rank_log(rank).touch()
    found.node(0).torch_flight_dump(0).write_bytes(dump(DONE, WAITS))
    write_json(found.node(1).rank_flight(1), OWN)
    found.node(1).rank_stacks(1).write_text(STACKS)
    return found


def test_the_records_of_all_nodes_are_merged_with_the_stacks(attempt: AttemptPaths) -> None:
    found = find_mismatch(attempt)
    assert found is not None
    assert (found.kind, found.sequence, found.ranks_missing) == (FlightKind.MISSING, 2, (1,))
    assert found.sides[0].stack == ("/run/train.py:7 step",)
    assert found.sides[1].stack == ("/run/data.py:88 next_batch", "/run/train.py:3 <module>")


def test_a_rank_s_own_record_counts_before_the_dump_of_torch(attempt: AttemptPaths) -> None:
    attempt.node(1).torch_flight_dump(1).write_bytes(dump(DONE, WAITS))
    found = find_mismatch(attempt)
    assert found is not None and found.ranks_missing == (1,)
    write_json(attempt.node(1).rank_flight(1), FlightRecord(problem="RuntimeError: no answer"))
    found = find_mismatch(attempt)
    assert found is not None and (found.kind, found.ranks_missing) == (FlightKind.ALL_ENTERED, ())


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch pwned",)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}x",
        pickle.dumps(_Evil()),
        b'{"entries": [{"group": 7, "op": "x", "sequence": 1}]}',
        b'{"groups": [], "entries": [{"group": -1, "op": "x", "sequence": 1}], "stacks": ["a"]}',
    ],
)
def test_a_damaged_or_forged_record_is_none(
    content: bytes, attempt: AttemptPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    attempt.node(1).rank_flight(1).write_bytes(content)
    attempt.node(1).torch_flight_dump(1).write_bytes(content)
    found = find_mismatch(attempt)
    assert found is not None and (found.kind, found.ranks_unrecorded) == (FlightKind.UNRECORDED, (1,))
    assert not (tmp_path / "pwned").exists()


def test_a_file_that_is_too_large_or_no_file_is_not_read(
    attempt: AttemptPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(attempt.node(1).torch_flight_dump(1))
    write_json(attempt.node(1).rank_flight(1), replace(OWN, stacks=("x" * 2000,)))
    monkeypatch.setattr(read, "MAX_BYTES", 1000)
    found = find_mismatch(attempt)
    assert found is not None and found.ranks_unrecorded == (1,)


def test_a_run_without_records_has_no_finding(tmp_path: Path) -> None:
    assert find_mismatch(AttemptPaths(tmp_path / "attempts/1")) is None
