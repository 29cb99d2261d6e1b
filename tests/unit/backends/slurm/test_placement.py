"""Nodes that a job does not get."""

from __future__ import annotations

from fsdpctl.backends.placement import Avoid, Own
from fsdpctl.backends.slurm.placement import place
from tests.unit.backends.slurm.test_batch_script import plan


def test_a_plan_that_is_placed_again_leaves_out_only_what_is_suspect_now() -> None:
    first = place(plan(), Avoid(suspects=["gpu07", "gpu08"]))
    assert first.plan.slurm is not None and first.plan.slurm.suspects == first.avoided == ("gpu07", "gpu08")
    again = place(first.plan, Avoid(suspects=["gpu08"]))
    assert again.plan.slurm is not None and again.plan.slurm.suspects == ("gpu08",)
    assert place(first.plan, Avoid()).plan == plan()
    assert place(first.plan, Avoid(suspects=["gpu08"]), Own("dev", ("gpu07", "gpu08"))).plan == plan()
