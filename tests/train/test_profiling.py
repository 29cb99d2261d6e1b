"""Traces of chosen steps, snapshots on request, and the advice when memory runs out."""

from __future__ import annotations

import errno
import gzip
import json
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fsdpctl.contract import NodeExit
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.trainer.trainer_config import ProfileConfig
from tests.services import require
from tests.train import faults
from tests.train.ranks import Config, Ranks, metrics, start, train
from tests.train.single_rank import SingleRank
from train.metrics.profiling import Profiler
from train.metrics.time_shares import Span, TimeShares, divide


def test_chosen_steps_are_traced_on_every_rank(tmp_path: Path, config: Config) -> None:
    config.update(steps=5, profile={"first_step": 2, "steps": 2}, eval={"sequences": 0})
    config["checkpoint"] = {"every_steps": 2, "mode": "none"}
    ranks = train(tmp_path, config, procs_per_node=2)
    names = [f"rank-{rank}-steps-2-3.json.gz" for rank in (0, 1)]
    assert sorted(path.name for path in (tmp_path / "profiles").iterdir()) == names
    assert f"profiled steps 2 to 3: {tmp_path}/profiles/{names[0]}; communication" in ranks.log()
    assert not list((tmp_path / "checkpoints").glob("step-*")) and "held-out" not in ranks.log()
    for name in names:
        with gzip.open(tmp_path / "profiles" / name) as file:
            events = [event.get("name", "") for event in json.load(file)["traceEvents"]]
        assert sum(name == "Optimizer.step#ShardedAdamW.step" for name in events) == 2


def test_starting_and_writing_a_trace_is_no_time_of_a_step(tmp_path: Path, config: Config) -> None:
    config.update(steps=5, profile={"first_step": 3, "steps": 1}, eval={"sequences": 0})
    train(tmp_path, config, fault=faults.slow_traces, fault_args=(8.0,))
    records = metrics(tmp_path)
    tokens = records[0]["tokens"]
    assert max(tokens / record["tokens_per_s"] for record in records[1:]) < 8


def test_the_shares_of_the_time() -> None:
    compute: list[Span] = [(0.0, 40.0), (50.0, 90.0), (95.0, 100.0)]
    communication: list[Span] = [(30.0, 50.0), (60.0, 80.0)]  # half of the first and all of the second beside compute
    found = divide(compute, communication)
    assert found is not None and found.summary() == pytest.approx(TimeShares(0.85, 0.4, 0.1).summary())
    assert divide(compute[:1], []) == TimeShares(1.0, 0.0, 0.0)
    assert divide([], []) is None


def request_snapshot(run: Path, config: Config) -> Ranks:
    config.update(steps=100_000, log_every=2, checkpoint={"every_steps": 100_000})
    attempt = RunPaths(run).attempt(1)
    attempt.root.mkdir(parents=True)
    ranks = start(run, config, env={"FSDPCTL_ATTEMPT": "1"})
    ranks.wait_for_step(3)
    assert "memory" not in ranks.log().partition("step 1/")[2]
    attempt.memory_snapshot_request.touch()
    ranks.wait_for_log("GPU memory (was|after)")
    ranks.signal(0, signal.SIGTERM)
    assert ranks.wait() == [NodeExit.STOPPED], ranks.log()
    return ranks


def test_without_a_gpu_a_snapshot_request_is_answered_once(tmp_path: Path, config: Config) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has a GPU")
    ranks = request_snapshot(tmp_path, config)
    assert ranks.log().count("a snapshot of GPU memory was requested, but this run has no GPU") == 1
    assert not (tmp_path / "profiles").exists()


def test_a_snapshot_on_demand(tmp_path: Path, config: Config) -> None:
    require("cuda")
    request_snapshot(tmp_path, config)
    (snapshot,) = (tmp_path / "profiles").glob("rank-0-memory-*.pickle")
    assert snapshot.stat().st_size > 1000


def test_what_cannot_be_written_is_one_warning_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    paths = RunPaths(tmp_path)
    paths.profiles.touch()  # so no file below it can be made
    config = SimpleNamespace(profile=ProfileConfig(first_step=1, steps=1), log_every=1)
    progress = SimpleNamespace(mark=lambda *_: None)
    context: Any = SimpleNamespace(config=config, paths=paths, world=SingleRank(), progress=progress, attempt=1)
    profiler = Profiler(context)
    assert profiler.before_step(1) and profiler.after_step(1)
    profiler.close(2)
    assert len(caplog.messages) == 1 and caplog.messages[0].startswith("no trace: [Errno 17]")
    caplog.clear()
    profiler.records_history = True
    paths.profiles.unlink()

    def fail(path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", fail)
    assert profiler.out_of_memory() is None
    assert caplog.messages == ["no snapshot of GPU memory: [Errno 28] No space left on device"]


def test_running_out_of_memory_ends_in_advice(tmp_path: Path, config: Config) -> None:
    config["checkpoint"]["every_steps"] = 2
    in_a_step: dict[str, Any] = {"fault": faults.out_of_memory, "fault_args": (3,)}
    for how in (in_a_step, {"fault": faults.out_of_memory_ahead}):  # the second one resumes at step 2
        ranks = start(tmp_path, config, **how)
        assert ranks.wait() == [1]
        last = ranks.log().splitlines()[-1]
        assert last.startswith("train: CUDA out of memory. Tried to allocate 2 GiB; take a smaller micro_batch")
