"""Advice follows from measured numbers, and from no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.contract import Cause, State
from fsdpctl.contract.node_report import GpuSample
from fsdpctl.run_report.facts import Facts, Node, SlowRank
from fsdpctl.run_report.notes import make_notes, rounded
from fsdpctl.runs.gpu_history import GpuUse
from tests.unit.run_report.facts import ATTEMPT, GOOD, PLAN, STEPS, ledger_of, on_gpus, with_steps

FAILED = replace(ATTEMPT, last_step=200, state=State.FAILED, cause=Cause.SIGNAL)
LOST = replace(FAILED, number=2, first_step=201, state=State.LOST, cause=Cause.LOST)
AGAIN = replace(ATTEMPT, number=2, first_step=101)
WORLD = replace(GOOD, plan=replace(PLAN, procs_per_node=8))
GPU = GpuSample(0, "H100", memory_used=2**30, memory_total=80 * 2**30)
UNSAVED = replace(with_steps(num_saves=0, save_stall_s=None), checkpoints=(), state=State.FAILED)


def with_gpu(peak_gib: float) -> Facts:
    node = Node(0, "alpha", (0,), "finished", (GPU,))
    return replace(on_gpus(GOOD), nodes=(node,), outcome={"peak_memory_gib": peak_gib})


@pytest.mark.parametrize(
    ("facts", "what", "change"),
    [
        (
            replace(GOOD, attempts=(FAILED, AGAIN)),
            "1 attempt failed (signal); 100 steps were done again, 100 s of work",
            "more frequent checkpoints lose fewer steps",
        ),
        (replace(GOOD, attempts=(LOST, AGAIN)), "1 attempt was lost; 100 steps were done again", "fsdpctl events"),
        (
            replace(GOOD, attempts=(FAILED, LOST, replace(LOST, state=State.STOPPED), AGAIN)),  # requeued by Slurm
            "1 attempt failed (signal) and 2 attempts were lost",
            "--errors --attempt 1` has why",
        ),
        (
            replace(GOOD, ledger=ledger_of(queue=900, start=540, redone=180, step=2880)),
            "20% of 1:00:00 was no training (start 15%, redone 5%)",
            "warm: true",
        ),
        (
            replace(with_steps(save_stall_s=90.0), ledger=ledger_of(step=3270, save=330)),
            "each save held up training for 90.0 s, 9% of the time",
            "every 4500 steps: 2%",
        ),
        (UNSAVED, "no checkpoint is recorded after 1:00:00 of steps", "at least once an hour"),
        (
            replace(WORLD, outcome={"exposed_communication_share": 0.4}),
            "40% of the time was communication",
            "HYBRID_SHARD",
        ),
        (
            replace(GOOD, slow_ranks=(SlowRank(3, "beta", 2),)),
            "rank 3 on beta, which became slow 2 times",
            "doctor local",
        ),
        (with_steps(skipped=1), "1 step changed nothing", "smaller learning rate"),
        (with_steps(mfu=0.12), "12.0% of their peak", "fsdpctl estimate mine"),
        (replace(GOOD, gpus=(GpuUse(0, 0, 0.4, None, None),)), "had work in 40% of the samples", "profile"),
        (with_gpu(10.0), "at most 10.0 of 80 GiB", "larger micro_batch"),
    ],
)
def test_each_loss_has_its_note(facts: Facts, what: str, change: str) -> None:
    (note,) = make_notes(facts)
    assert what in note.what and change in note.change
    assert note.docs.startswith("docs/")


@pytest.mark.parametrize(
    "facts",
    [
        GOOD,
        with_steps(mfu=None),
        with_steps(save_stall_s=10.0),
        with_steps(save_stall_s=90.0),  # but training has hardly waited for saves
        with_gpu(70.0),
        replace(GOOD, gpus=(GpuUse(0, 0, 0.9, None, None),)),
        replace(GOOD, steps=None, checkpoints=()),
        replace(GOOD, ledger=ledger_of(start=50, step=10)),
        replace(UNSAVED, steps=replace(STEPS, count=60, num_saves=0, save_stall_s=None)),
        replace(GOOD, plan=replace(PLAN, procs_per_node=1), outcome={"exposed_communication_share": 0.4}),
        replace(GOOD, attempts=(replace(FAILED, state=State.STOPPED), AGAIN)),
    ],
)
def test_what_is_good_short_or_unknown_has_none(facts: Facts) -> None:
    assert make_notes(facts) == []


def test_a_save_interval_has_two_digits_that_count() -> None:
    assert [rounded(number) for number in (1, 12, 123, 4501, 99_999)] == [1, 12, 130, 4600, 100_000]
