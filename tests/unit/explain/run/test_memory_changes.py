"""What to change after a GPU ran out of memory, from the run's own configuration."""

from __future__ import annotations

import shlex

import pytest

from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.explain.run.memory_changes import memory_changes
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_job, load_profile

JOB = "llm-tiny"


def trainer(*overrides: str) -> TrainerConfig:
    found = load_job(JOB, overrides).trainer
    assert found is not None
    return found


def settings(config: TrainerConfig, **fields: str) -> list[str]:
    """The KEY=VALUE of each change."""
    words = [shlex.split(change) for change in memory_changes(config, fields, "r-aaaa")]
    assert all(one[:4] == ["fsdpctl", "resume", "r-aaaa", "--set"] for one in words)
    return [one[4] for one in words]


def test_the_smallest_change_is_first_and_all_are_accepted_by_the_job() -> None:
    found = settings(trainer("trainer.batch.micro_batch=8"), tried="2.00 GiB", unused="16.00 GiB")
    assert found[:2] == ["env.PYTORCH_ALLOC_CONF=expandable_segments:True", "trainer.batch.micro_batch=4"]
    assert found[-1] == "trainer.memory.cpu_offload=true"
    for setting in found:
        load_job(JOB, [setting])


def test_what_is_set_already_or_would_not_help_is_left_out() -> None:
    least = ("micro_batch=1", "recompute=full", "cpu_offload=true")
    keys = ("trainer.batch.", "trainer.memory.", "trainer.memory.")
    config = trainer(*map(str.__add__, keys, least), "trainer.mesh.strategy=FULL_SHARD")
    assert settings(config, tried="20.00 GiB", unused="16.00 GiB") == []


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        (
            ("trainer.memory.recompute=selective", "trainer.memory.recompute_every=2"),
            ["trainer.memory.recompute=full", "trainer.memory.recompute_every=1"],
        ),
        (
            ("trainer.mesh.strategy=HYBRID_SHARD", "trainer.mesh.replicate=2", "trainer.mesh.shard=4"),
            ["trainer.mesh.strategy=FULL_SHARD", "trainer.mesh.replicate=null", "trainer.mesh.shard=null"],
        ),
    ],
)
def test_a_change_has_all_the_keys_that_it_needs(written: tuple[str, ...], keys: list[str]) -> None:
    changes = [shlex.split(change.partition("  (")[0]) for change in memory_changes(trainer(*written), {}, "r-aaaa")]
    found = [[word for word in change[3:] if word != "--set"] for change in changes]
    assert keys in found
    for one in found:
        load_job(JOB, [*written, *one])


def test_what_the_job_would_refuse_is_left_out() -> None:
    """Recomputing takes whole blocks."""
    changes = memory_changes(trainer("trainer.mesh.units={names: [blocks.*.mlp]}"), {}, "r-aaaa")
    assert changes and not any("recompute" in change for change in changes)


@pytest.mark.parametrize("fields", [{}, {"tried": "a lot", "unused": "16.00 GiB"}])
def test_without_numbers_fragmentation_is_not_suspected(fields: dict[str, str]) -> None:
    assert "env" not in settings(trainer(), **fields)[0]


def test_the_change_that_fits_this_gpu_by_its_estimate_comes_first() -> None:
    """Seven billion parameters as DDP: the error reports the size of the GPU."""
    config = load_job("llm7b", ["trainer.mesh.strategy=DDP"]).trainer
    assert config is not None
    host = SubmitHost("r-aaaa", "/runs/r-aaaa", "/me", "/venv/bin/python", ())
    plan = build_plan(load_profile("slurm-h100"), load_job("llm7b"), host)
    fields = {"tried": "100.00 MiB", "total": "79.15 GiB"}
    first = memory_changes(config, fields, "r-aaaa", plan)[0]
    assert "--set trainer.mesh.strategy=SHARD_GRAD_OP  (the smallest change that fits: about " in first
    assert first.endswith("GiB of 79.2, by `fsdpctl estimate`)")
    fits = load_job("llm7b").trainer
    assert fits is not None
    assert "estimate" not in memory_changes(fits, fields, "r-aaaa", plan)[0]
