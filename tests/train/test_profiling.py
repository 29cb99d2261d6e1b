"""Traces of chosen steps, and what is said when memory runs out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.train import faults
from tests.train.ranks import Config, start, train
from train.profiling import communication_share


def test_chosen_steps_are_traced_on_every_rank(tmp_path: Path, config: Config) -> None:
    config.update(steps=5, profile={"first_step": 2, "steps": 2})
    ranks = train(tmp_path, config, procs_per_node=2)
    names = [f"rank-{rank}-steps-2-3.json.gz" for rank in (0, 1)]
    assert sorted(path.name for path in (tmp_path / "profiles").iterdir()) == names
    assert f"profiled steps 2 to 3: {tmp_path}/profiles/{names[0]}" in ranks.log()
    for name in names:
        with gzip.open(tmp_path / "profiles" / name) as file:
            events = [event.get("name", "") for event in json.load(file)["traceEvents"]]
        assert sum(name == "Optimizer.step#AdamW.step" for name in events) == 2


def test_the_share_of_communication() -> None:
    kernels = [
        ("gemm", (0.0, 40.0)),
        ("ncclDevKernel_AllGather", (30.0, 50.0)),  # half of it behind compute
        ("gemm", (50.0, 90.0)),
        ("ncclDevKernel_ReduceScatter", (60.0, 80.0)),  # all of it
        ("gemm", (95.0, 100.0)),
    ]
    assert communication_share(kernels) == (pytest.approx(0.4), pytest.approx(0.25))
    assert communication_share(kernels[:1]) == (0.0, 0.0)
    assert communication_share([]) is None


def test_running_out_of_memory_ends_in_advice(tmp_path: Path, config: Config) -> None:
    ranks = start(tmp_path, config, fault=faults.out_of_memory, fault_args=(3,))
    assert ranks.wait() == [1]
    last = ranks.log().splitlines()[-1]
    assert last.startswith("train: CUDA out of memory. Tried to allocate 2 GiB; take a smaller micro_batch")
