"""Dumps of torch's flight recorder: read as they are written, and nothing else is."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pytest

from fsdpctl.contract.formats.flight_dump import KEPT_DONE, FlightDumpError, build_record, load_dump


def entry(number: int, **changed: Any) -> dict[str, Any]:
    """As torch 2.11 and 2.13 write it."""
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": "nccl:all_gather",
        "time_created_ns": 1,
        "input_sizes": [[3]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4, 3]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "retired": True,
        "is_p2p": False,
        "frames": [{"name": "step", "filename": "/run/train.py", "line": 7}],
        **changed,
    }


def dump(*entries: dict[str, Any]) -> bytes:
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return pickle.dumps({"version": "2.10", "pg_config": groups, "entries": list(entries)}, protocol=2)


def test_a_dump_becomes_a_record() -> None:
    waits = entry(2, state="started", retired=False, profiling_name="nccl:send 0->1", is_p2p=True, p2p_seq_id=5)
    record = build_record([load_dump(dump(entry(1), waits))], {})
    assert [(group.backend, group.name, group.description, group.ranks) for group in record.groups] == [
        ("nccl", "0", "default_pg", (0, 1))
    ]
    first, second = record.entries
    assert (first.op, first.sequence, first.is_done, first.inputs, first.outputs) == (
        "all_gather",
        1,
        True,
        ("Float[3]",),
        ("Float[4,3]",),
    )
    assert (second.op, second.sequence, second.is_p2p, second.is_done) == ("send 0->1", 5, True, False)
    assert record.stacks == ("/run/train.py:7 step",)


def test_gloo_does_not_record_the_ranks_of_a_group_and_marks_what_is_done_as_retired_only() -> None:
    data = pickle.dumps(
        {"pg_config": {"": {"desc": "", "name": "", "ranks": "[]"}}, "entries": [entry(1, state="scheduled")]}
    )
    record = build_record([load_dump(data)], {"0": (0, 1, 2)})
    assert (record.groups[0].ranks, record.entries[0].is_done) == ((0, 1, 2), True)


def test_a_record_keeps_the_newest_of_each_group_and_all_that_are_not_done() -> None:
    old = entry(1, state="scheduled", retired=False)
    many = [entry(number) for number in range(2, 2002)]
    rare = entry(7, process_group=("1", "rare"))
    record = build_record([load_dump(dump(rare, old, *many))], {})
    kept = [(record.groups[one.group].name, one.sequence) for one in record.entries]
    assert kept == [("1", 7), ("0", 1), *(("0", number) for number in range(2002 - KEPT_DONE, 2002))]
    assert len(record.stacks) == 1


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch pwned",)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({"entries": [_Evil()]}),
        pickle.dumps([1]),
        b"",
        dump(entry(1))[:-20],
        pickle.dumps({"entries": [{}]}),
        pickle.dumps({"entries": [entry(1, input_sizes=3)]}),
        pickle.dumps({"entries": [entry(1, collective_seq_id=[])]}),
        pickle.dumps({"entries": 3}),
        pickle.dumps({"pg_config": {"0": {"ranks": "__import__('os')"}}}),
    ],
)
def test_anything_else_is_refused_and_runs_nothing(data: bytes, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FlightDumpError):
        build_record([load_dump(data)], {})
    assert not list(tmp_path.iterdir())
