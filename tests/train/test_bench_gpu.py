"""`bench.gpu` computes rows from a run's metrics, and a row that fails does not affect the others."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from bench.gpu.__main__ import measure
from bench.gpu.agreement import describe, differences
from bench.gpu.kernel_time import STEPS, Kernel, by_group, longest_kernels
from bench.gpu.process import CommandError
from bench.gpu.result import Result
from bench.gpu.rows import CALLS, Row
from bench.gpu.training import _our_result
from bench.gpu.workspace import Workspace

STEP_S, STALL_S, EVERY = 0.25, 0.5, 10


@pytest.mark.parametrize("is_between", [True, False])
def test_a_stall_is_what_the_steps_after_saves_take_longer(tmp_path: Path, is_between: bool) -> None:
    """Between two steps only the host's clock shows it, else the device's own."""
    began, lines = time.time(), []
    for step in range(1, 46):
        stalls = (step - 1) // EVERY  # each save holds up the step after it
        at = began + 5 + step * STEP_S + stalls * STALL_S
        took_s = STEP_S if is_between or step == 1 or (step - 1) % EVERY else STEP_S + STALL_S
        lines.append({"step": step, "time": at, "tokens_per_s": 64 / took_s, "loss": 1.0})
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = {"batch": {"sequences": 4}, "model": {"seq_len": 16}, "checkpoint": {"every_steps": EVERY}}
    log = "saved step-00000010 in 1.50 s (staged in 0.001 s)\npeak memory 2.50 GiB\n"
    result = _our_result(config, 2, began, tmp_path, log)
    assert result.step_ms == pytest.approx(1000 * STEP_S)
    assert result.tokens_per_s_gpu == pytest.approx(64 / STEP_S / 2)
    assert result.stall_ms == pytest.approx(1000 * STALL_S, abs=1e-2)
    assert result.p99_over_p50 == pytest.approx((STEP_S + STALL_S) / STEP_S, abs=1e-3)
    assert (result.save_s, result.peak_gib) == (1.5, 2.5)


def test_a_step_s_time_is_put_into_groups_and_idle() -> None:
    kernels = [
        Kernel("nvjet_sm90_tst_256x128", 0, 3000 * STEPS),
        Kernel("void cudnn::fusion::convert_dq_to_16bits<true>", 3000 * STEPS, 1000 * STEPS),
        Kernel("ncclDevKernel_AllGather", 3500 * STEPS, 1500 * STEPS),  # beside the one before it
        Kernel("triton_poi_fused_mul_silu", 5500 * STEPS, 250 * STEPS),
        Kernel("something new", 5750 * STEPS, 125 * STEPS),
    ]
    assert by_group(reversed(kernels)) == {
        "matrix products": 3.0,
        "NCCL": 1.5,
        "attention": 1.0,
        "idle": 0.5,
        "compiled, element by element": 0.25,
        "others": 0.125,
    }
    assert by_group([]) == {}
    assert longest_kernels(kernels, most=1) == (f"3.00 ms in {1 / STEPS:g}: nvjet_sm90_tst_256x128",)


def test_a_row_that_fails_affects_no_other_and_one_without_time_is_left_out(tmp_path: Path) -> None:
    def fails(workspace: Workspace) -> Result:
        raise CommandError("exit code 1")

    def breaks(workspace: Workspace) -> Result:
        raise ZeroDivisionError

    def works(workspace: Workspace) -> Result:
        return Result(tokens_per_s_gpu=100.0, losses=(1.0, 0.5), sequences=8)

    rows = [
        Row("fails", 0, fails),
        Row("breaks", 0, breaks),
        Row("works", 0, works),
        Row("long", 1e6, works),
        Row("again", 0, works, ("works", "fails")),
    ]
    out = tmp_path / "out.jsonl"
    table = measure(rows, time.monotonic() + 1000, 100, out, tiny=True)
    assert [(row[0], row[1]) for row in table] == [
        ("fails", "failed"),
        ("breaks", "failed"),
        ("works", "100"),
        ("again", "100"),
    ]
    assert table[-1][2] == "1.000 of works"
    printed = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["row"] for line in printed] == [row.name for row in rows]
    assert "left out" in printed[3] and printed[1]["failed"] == "ZeroDivisionError: "


def test_a_difference_is_reported_relative_to_noise() -> None:
    reference = [4.0] * 25
    ours = [4.004] * 20 + [4.04] * 5  # early ones are as near as noise, later ones ten times as far
    found = describe(differences(ours, reference), differences([3.996] * 25, reference))
    assert "25 steps: compiled differs by 1.0e-02 at most, 2.8e-03 in the mean" in found
    assert "fp32 by 1.0e-03, 1.0e-03; ratio of the means 2.80; first 20 steps" in found
    assert found.endswith("ratio of the means 1.00")


def test_row_names_are_unique_and_rows_are_compared_with_earlier_rows() -> None:
    for call in CALLS.values():
        names = [row.name for row in call()]
        assert len(set(names)) == len(names)
        for number, row in enumerate(call()):
            assert set(row.against) <= set(names[:number]), row.name
