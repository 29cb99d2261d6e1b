"""What GPUs did is recorded by agents, and read over all nodes and attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.gpu_history import LIMIT_BYTES, append_moment, read_moments
from fsdpctl.contract.node_report import GpuSample
from fsdpctl.contract.paths import RunPaths
from fsdpctl.curves.read import read_curves
from fsdpctl.node.agent.gpu_history import GpuHistory
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.gpu_history import GpuUse, measure_energy, read_gpu_history, summarize_gpus
from tests.unit.ended_runs import make_run, time_of

GIB = 2**30
WORKS = GpuSample(0, busy=1.0, memory_used=60 * GIB, power_w=700.0)
IDLE = GpuSample(1, busy=0.0, memory_used=20 * GIB, power_w=100.0)
UNKNOWN = GpuSample(1)


@pytest.fixture
def run() -> RunPaths:
    """A run of two attempts, whose node has recorded GPUs every ten seconds, and after a gap."""
    run = make_run("mine-aaaa", steps=60, starts=(1, 31))
    for attempt, steps in ((1, (-8, 10, 20)), (2, (40, 50))):
        for step in steps:
            append_moment(run.attempt(attempt).node(0).gpu_history, time_of(step, attempt) + 0.5, [WORKS, IDLE])
    return run


def test_each_gpu_is_summarized_and_its_energy_measured_without_gaps(run: RunPaths) -> None:
    history = read_gpu_history(run)
    assert summarize_gpus(history) == (GpuUse(0, 0, 1.0, 700.0, 60 * GIB), GpuUse(0, 1, 0.0, 100.0, 20 * GIB))
    assert measure_energy(history) == pytest.approx(800 * (18 + 10 + 10) / 3.6e6)


def test_curves_of_gpus_are_over_steps(run: RunPaths) -> None:
    found = read_curves(RunFacts(run))
    memory, power = found.curve("gpu_memory_gib"), found.curve("gpu_power_w")
    assert memory is not None and power is not None
    assert (memory.steps, set(memory.values)) == ((10, 20, 40, 50), {60.0})
    assert (power.steps, set(power.values)) == ((10, 20, 40, 50), {800.0})


def test_two_nodes_are_added_and_a_missing_sample_is_no_drop(run: RunPaths) -> None:
    for step in (10, 40, 50):
        attempt = 1 if step == 10 else 2
        node = run.attempt(attempt).node(1)
        node.root.mkdir(exist_ok=True)
        append_moment(node.gpu_history, time_of(step, attempt) + 0.7, [WORKS])
    power = read_curves(RunFacts(run)).curve("gpu_power_w")
    assert power is not None
    assert (power.steps, set(power.values)) == ((10, 40, 50), {1500.0})


def test_after_a_resume_on_fewer_nodes_power_is_that_of_those(run: RunPaths) -> None:
    node = run.attempt(1).node(1)
    node.root.mkdir()
    append_moment(node.gpu_history, time_of(10, 1) + 0.7, [WORKS])
    power = read_curves(RunFacts(run)).curve("gpu_power_w")
    assert power is not None
    assert (power.steps, power.values) == ((10, 40, 50), (1500.0, 800.0, 800.0))
    use = summarize_gpus(read_gpu_history(run))
    assert [(gpu.node, gpu.gpu) for gpu in use] == [(0, 0), (0, 1), (1, 0)]


def test_what_a_gpu_does_not_report_and_damaged_lines_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "gpus.jsonl"
    append_moment(path, 10.0, [WORKS, UNKNOWN])
    with open(path, "ab") as file:
        file.write(b'{"time":1,"busy":["x"],"memory_used":[],"power_w":[]}\n{"time":20.0,"bu\n[]\n')
    moments = list(read_moments(path))
    assert [moment.busy for moment in moments] == [(1.0, None)]
    assert summarize_gpus([{0: moments}])[1] == GpuUse(0, 1, None, None, None)
    assert measure_energy([{0: moments}]) is None


def test_the_agent_records_now_and_then_and_never_too_much(tmp_path: Path) -> None:
    path = tmp_path / "gpus.jsonl"
    history = GpuHistory(path, every_s=3600.0)
    history.add(())
    assert not path.exists()
    for _ in range(3):
        history.add([WORKS])
    assert len(list(read_moments(path))) == 1
    path.write_bytes(b" " * LIMIT_BYTES)
    GpuHistory(path).add([WORKS])
    assert path.stat().st_size == LIMIT_BYTES
    GpuHistory(tmp_path / "no" / "gpus.jsonl").add([WORKS])  # an error of the disk is ignored


def test_a_run_without_gpus_has_no_curves_of_them() -> None:
    run = make_run("mine-aaaa", steps=3)
    assert (read_gpu_history(run), read_curves(RunFacts(run)).curve("gpu_power_w")) == ([], None)
