from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.errors import UsageError
from fsdpctl.scaling.points import Measurement
from fsdpctl.scaling.prepare import prepare_points
from fsdpctl.specs.load import load_job, parse_job, parse_profile
from fsdpctl.specs.profile import ClusterProfile

WEAK, STRONG = Measurement(20, False, 1200), Measurement(20, True, 1200)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path))


def slurm(more: str = "") -> ClusterProfile:
    return parse_profile(f"name: ours\nbackend: {{kind: slurm}}\ngpus_per_node: 8\n{more}", "ours.yaml")


def test_gpus_become_nodes_of_the_profile() -> None:
    planned = prepare_points(slurm(), load_job("llm300m", ["nodes=4"]), [1, 4, 16], ["FULL_SHARD"], WEAK)
    plans = [(len(one.request.plan.nodes), one.request.plan.procs_per_node) for one in planned]
    assert plans == [(1, 1), (1, 4), (2, 8)]
    described = planned[-1].describe()
    assert (described.micro_batch, described.accumulation, described.tokens_per_step) == (32, 1, 16 * 32 * 2048)
    assert len({one.request.plan.run_id for one in planned}) == 3


def test_weak_scaling_has_the_micro_batch_that_is_chosen_at_the_smallest_point() -> None:
    job = load_job("llm300m", ["trainer.batch.micro_batch=null"])
    planned = prepare_points(slurm("gpu: h200\n"), job, [2, 8], ["FULL_SHARD", "DDP"], WEAK)
    sizes = {one.describe().micro_batch for one in planned}
    assert len(sizes) == 1 and sizes != {1}, sizes
    assert {one.tokens_per_step for one in planned if one.point.gpus == 8} == {8 * sizes.pop() * 2048}
    with pytest.raises(UsageError, match="has no trainer"):
        prepare_points(slurm(), job, [2], ["FULL_SHARD"], WEAK)
    odd = load_job("llm300m", ["trainer.batch={micro_batch: null, sequences: 36}"])
    with pytest.raises(UsageError, match="none can be chosen: trainer"):
        prepare_points(slurm("gpu: h200\n"), odd, [8], ["FULL_SHARD"], WEAK)


def test_the_strategy_of_the_job_is_the_default() -> None:
    job = load_job("llm300m", ["trainer.mesh.strategy=SHARD_GRAD_OP"])
    assert [one.point.strategy for one in prepare_points(slurm(), job, [8], [], WEAK)] == ["SHARD_GRAD_OP"]


def test_a_known_gpu_has_expected_values() -> None:
    one, eight = prepare_points(slurm("gpu: h200\n"), load_job("llm300m"), [1, 8], ["FULL_SHARD"], WEAK)
    first, last = one.describe().expected, eight.describe().expected
    assert first is not None and last is not None
    assert first.tokens_per_s_gpu > last.tokens_per_s_gpu > 0.5 * first.tokens_per_s_gpu
    assert first.exposed_communication_share == 0 < last.exposed_communication_share < 0.5
    (unknown,) = prepare_points(slurm(), load_job("llm300m"), [1], [], WEAK)
    assert unknown.describe().expected is None


def test_all_points_that_do_not_fit_are_named_before_anything_runs(tmp_path: Path) -> None:
    job = load_job("llm300m", ["trainer.batch.sequences=36", "trainer.reduce_dtype=bf16"])
    with pytest.raises(UsageError) as caught:
        prepare_points(slurm(), job, [4, 8], ["FULL_SHARD", "DDP"], STRONG)
    assert caught.value.message.splitlines() == [
        "job llm300m does not fit profile ours:",
        "FULL_SHARD on 8 ranks: trainer.batch: a global batch of 36 sequences does not divide over 8 ranks",
        *(
            f"DDP on {ranks} ranks: DDP adds gradients up as they are, in fp32: reduce_dtype needs a strategy of FSDP"
            for ranks in (4, 8)
        ),
    ]
    with pytest.raises(UsageError, match="--gpus: 12 are more than the 8 of a node"):
        prepare_points(slurm(), load_job("llm300m"), [12], [], WEAK)


def test_a_strategy_that_needs_more_memory_than_a_gpu_has_is_refused() -> None:
    profile, job = slurm("gpu: h100-80\n"), load_job("llm7b")
    assert len(prepare_points(profile, job, [8], ["SHARD_GRAD_OP"], WEAK)) == 1
    with pytest.raises(UsageError) as caught:
        prepare_points(profile, job, [8, 16], ["DDP"], WEAK)
    _, eight, sixteen = caught.value.message.splitlines()
    assert eight.startswith("DDP on 8 ranks: job scaling-llm7b-8-ddp needs about 1")
    assert sixteen.startswith("DDP on 16 ranks: ")
    assert "of each GPU, and a h100-80 (profile ours) has 79.1: " in eight


def test_a_script_of_the_user_is_refused() -> None:
    with pytest.raises(UsageError, match="entrypoint of its own"):
        prepare_points(slurm(), parse_job("name: x\nentrypoint: {script: a.py}\n", "x.yaml"), [1], [], WEAK)
