"""When the compiler works is recorded, in forward and backward passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._dynamo.callback import callback_handler

from fsdpctl.contract.work_log import Work, WorkLog, read_work
from train.metrics.compile_times import record_compiling


@pytest.fixture(autouse=True)
def only_own_callbacks() -> Iterator[None]:
    yield
    callback_handler.clear()


def test_the_compiler_works_amid_a_step(tmp_path: Path) -> None:
    log = WorkLog(tmp_path / "work.jsonl")
    log.begin(Work.STEP)
    record_compiling(log)
    compiled = torch.compile(torch.sin, backend="eager")
    for _ in range(3):
        compiled(torch.ones(2))
    log.begin(Work.SAVE)
    found = [work for _, work in read_work(tmp_path / "work.jsonl")]
    assert found == [Work.STEP, Work.COMPILE, Work.STEP, Work.SAVE], "once, not in each step"
