"""Numbers of GPUs through a library that is compiled here with the structures of nvml.h."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fsdpctl.contract.codec import decode
from fsdpctl.contract.node_report import GpuSample
from fsdpctl.node.agent import gpu_watch
from fsdpctl.node.agent.gpu_watch import GpuWatch
from tests.backends.harness import wait_for

GIB = 2**30
NEWER = GpuSample(
    index=0,
    name="Fake H200",
    busy=0.98,
    sm_activity=0.2,
    tensor_activity=0.5,
    memory_used=100 * GIB,
    memory_total=150 * GIB,
    power_w=651.5,
    power_limit_w=700.0,
    energy_j=1.5,
    temperature_c=64,
    sm_clock_mhz=1755,
    max_sm_clock_mhz=1980,
    throttle=("sw_power_cap", "sw_thermal_slowdown"),
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a fake libnvidia-ml.so.1."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    directory = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).with_name("fake_nvml.c")
    argv = [compiler, "-shared", "-fPIC", "-w", "-o", str(directory / "libnvidia-ml.so.1"), str(source)]
    subprocess.run(argv, check=True, timeout=60)
    return directory


def probe(directory: Path, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "fsdpctl.node.gpus"]
    given = {**os.environ, "LD_LIBRARY_PATH": str(directory), **env}
    return subprocess.run(argv, env=given, capture_output=True, text=True, timeout=60)


def test_all_values_are_read_and_what_a_gpu_does_not_report_is_null(library: Path) -> None:
    newer, older = decode(tuple[GpuSample, ...], json.loads(probe(library).stdout))
    assert newer == NEWER
    assert (older.index, older.memory_used, older.temperature_c) == (1, 100 * GIB, 64)
    assert (older.busy, older.power_w, older.sm_activity, older.tensor_activity, older.energy_j) == (None,) * 5


@pytest.mark.parametrize(
    ("visible", "indices"), [("1", [1]), ("0,1", [0, 1]), ("GPU-aaaa", [0]), ("", []), ("MIG-7", [])]
)
def test_only_the_gpus_of_the_node_are_read(library: Path, visible: str, indices: list[int]) -> None:
    assert [gpu["index"] for gpu in json.loads(probe(library, CUDA_VISIBLE_DEVICES=visible).stdout)] == indices


def test_without_a_driver_there_is_nothing(tmp_path: Path) -> None:
    done = probe(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "libnvidia-ml.so.1" in done.stderr


def test_the_agent_gets_samples_without_waiting(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    watch = GpuWatch("0", every_s=0.1)
    began = time.monotonic()
    assert watch.look() == ()
    assert time.monotonic() - began < 0.1
    assert wait_for(watch.look, 20, "a sample") == (NEWER,)
    monkeypatch.setattr(gpu_watch, "STALE_S", -1.0)
    assert watch.look() == (), "a driver that hangs leaves no old numbers"
    assert watch.energy_j == 1.5, "but what was used stays"
    watch.close()


def test_the_agent_reports_no_gpus_where_the_driver_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    watch = GpuWatch(None, every_s=0.1)
    watch.close()
    assert watch.look() == ()
