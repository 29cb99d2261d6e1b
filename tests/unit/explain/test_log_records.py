"""Records with named fields, exceptions as `repr` writes them, and causes that are listed without their tracebacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.explain.categories import Category
from tests.unit.explain.test_log_files import TIMEOUT, TRACE, diagnose, first, prefixed

ABORTED = "NCCL communicator was aborted on rank 0."
OOM = "CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.mark.parametrize(
    ("record", "category"),
    [
        ('lvl=error rank=3 exc=FileNotFoundError msg="[Errno 2] No such file or directory: \'/x\'"', "file_not_found"),
        ('level=error rank=3 msg="failed" type=RuntimeError err="ZeroDivisionError" stack="a.py"', "division_by_zero"),
        ('severity=ERROR rank=3 error="ValueError: bad value"', "exception"),
        ('level=error rank=3 msg=failed err="[gloo/gloo/transport/tcp/pair.cc:548] Read error [10.8.1.2]:5"', "gloo"),
        ('2026-03-02 08:00:11 ERROR rank=3 exc_type=KeyError exc_msg="\'x\'"', "exception"),
        (json.dumps({"level": "error", "rank": 3, "msg": f"torch.OutOfMemoryError: {OOM}"}), "cuda_oom"),
        (json.dumps({"lv": "E", "r": 3, "m": "ZeroDivisionError: division by zero"}), "division_by_zero"),
        (json.dumps({"log.level": "error", "labels": {"rank": "3"}, "error": {"type": "KeyError", "message": "'x'"}}),
         "exception"),
        (json.dumps({"level": "error", "rank": 3, "exception": [{"exc_type": "ValueError", "exc_value": "x"}]}),
         "exception"),
        (json.dumps({"record": {"level": {"name": "ERROR"}, "extra": {"rank": 3}}, "text": f"{TRACE}MemoryError"}),
         "ram_oom"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("prefix", ["", "[pod/bert-worker-1/pytorch] "])
def test_an_error_in_the_fields_of_a_record(record: str, category: str, prefix: str, tmp_path: Path) -> None:
    peer = f'{prefix}level=error rank=0 exc=RuntimeError msg="{ABORTED}"\n'
    time = "ts=2026-03-02T08:00:11Z " if record[0] not in "{2" else ""
    found = first(tmp_path, f"{prefix}{time}{record}\n{peer}")
    assert (found.category, found.rank) == (category, 3)


def test_a_record_that_only_reports_is_no_error(tmp_path: Path) -> None:
    retried = 'ts=2026-03-02T08:00:11Z level=warn rank=1 msg=retry err="OSError: [Errno 5] Input/output error"\n'
    operator = '{"level":"error","msg":"reconcile failed","error":"the object has been modified"}\n'
    found = first(tmp_path, retried + operator + prefixed("[rank2]: ", TRACE + "KeyError: 'x'"))
    assert (found.category, found.rank) == (Category.EXCEPTION, 2)


@pytest.mark.parametrize(
    "text",
    [
        f"ERROR: an error occurred in the train loop: RuntimeError('{OOM}',)\n",
        f"worker-1 | Exception: RuntimeError('{OOM}')\n",
        f'Exception: RuntimeError("{OOM}")\n',
    ],
)
def test_an_exception_as_repr_writes_it(text: str, tmp_path: Path) -> None:
    assert first(tmp_path, text).category is Category.CUDA_OOM


def test_a_level_after_a_traceback_is_no_exception(tmp_path: Path) -> None:
    text = f"INFO: {TRACE}INFO: Cleaning up, deploying last snapshot\n"
    assert diagnose(tmp_path, text).first is None


def test_the_cause_is_above_a_generic_error_where_tracebacks_are_left_out(tmp_path: Path) -> None:
    cause = 'botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "https://s3"\n'
    assert first(tmp_path, cause + "RuntimeError: Background thread failed\n").category is Category.NETWORK
    assert first(tmp_path, "KeyError: 'x'\n" + "RuntimeError: failed\n").category is Category.RUNTIME_ERROR


def test_what_nccl_writes_below_an_exception_of_another_rank_is_no_part_of_it(tmp_path: Path) -> None:
    text = f"{TRACE}AssertionError: accuracy is 0\nncclRemoteError: A call failed possibly due to a network error\n"
    assert first(tmp_path, text + TIMEOUT.format(rank=1)).category is Category.ASSERTION


LOST = "kernel: EXT4-fs (nvme2n1): Remounting filesystem read-only\n"
READ_ONLY = f"{TRACE}OSError: [Errno 30] Read-only file system: '/mnt/x'\n"


@pytest.mark.parametrize("end", [READ_ONLY, "Fatal Python error: Bus error\n"])
@pytest.mark.parametrize("prefix", ["", "[rank7]: "])
def test_what_follows_from_a_lost_file_system(end: str, prefix: str, tmp_path: Path) -> None:
    assert first(tmp_path, LOST + prefixed(prefix, end)).category is Category.STORAGE
    assert first(tmp_path, prefixed(prefix, end)).category is not Category.STORAGE
