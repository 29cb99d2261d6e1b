"""What the fork server of a node imports."""

from __future__ import annotations

from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.warm.imports import TENSORBOARD, TORCH, TRAINER, warm_sets
from fsdpctl.specs.load import load_job, load_profile, parse_job

SITE = SubmitHost("r", "/runs/r", "/", "python3", ())


def test_the_trainers_modules_are_for_the_trainer_and_tensorboard_where_rank_0_is() -> None:
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), SITE)
    assert warm_sets(plan, 0) == [TORCH, TRAINER, TENSORBOARD]
    assert warm_sets(plan, 1) == [TORCH, TRAINER]


def test_a_script_gets_torch_and_its_own_modules() -> None:
    job = parse_job("name: j\nwarm_imports: [json]\nentrypoint: {script: x.py}\n", "j")
    plan = build_plan(load_profile("local"), job, SITE)
    assert warm_sets(plan, 0) == warm_sets(plan, 1) == [TORCH, "json"]
