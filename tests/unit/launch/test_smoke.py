from __future__ import annotations

import pytest

from fsdpctl.errors import UsageError
from fsdpctl.launch.smoke import shrink
from fsdpctl.specs.load import load_job, parse_job


@pytest.mark.parametrize("name", ["llm-tiny", "llm90m", "llm300m"])
def test_a_smoke_run_keeps_the_path_and_shrinks_the_cost(name: str) -> None:
    job = load_job(name, ["nodes=2"])
    small = shrink(job)
    assert job.trainer is not None and small.trainer is not None
    before, after = job.trainer, small.trainer
    assert after.model.num_parameters <= min(before.model.num_parameters, 5_000_000)
    assert (after.mesh, after.data, after.precision, after.batch) == (
        before.mesh,
        before.data,
        before.precision,
        before.batch,
    )
    assert after.model.vocab_size == before.model.vocab_size
    assert after.model.tie_embeddings == before.model.tie_embeddings
    assert after.checkpoint.every_steps < after.steps <= 8, "it also saves in between"


def test_what_would_come_after_the_last_step_comes_before() -> None:
    small = shrink(load_job("llm300m", ["trainer.profile.first_step=50"])).trainer
    assert small is not None
    assert (small.profile.first_step, small.optim.warmup_steps) == (8, 2)


@pytest.mark.parametrize(
    "change",
    [
        ["trainer.optim.frozen=[blocks.9.*]"],
        ["trainer.optim.frozen=['[en]*.weight', 'blocks.[01].*']", "trainer.model.tie_embeddings=true"],
        ["trainer.mesh.units={names: [blocks.9.mlp]}"],
        ["trainer.mesh={units: {blocks: 4}, prefetch: 1}"],
    ],
)
def test_blocks_that_the_job_needs_stay(change: list[str]) -> None:
    job = load_job("llm90m", change)
    small = shrink(job)
    assert job.trainer is not None and small.trainer is not None
    assert small.trainer.model.layers == job.trainer.model.layers == 10
    assert small.trainer.model.num_parameters < 10_000_000


def test_a_script_of_the_user_has_no_smoke() -> None:
    with pytest.raises(UsageError, match="entrypoint of its own"):
        shrink(parse_job("name: x\nentrypoint: {script: a.py}\n", "x.yaml"))
