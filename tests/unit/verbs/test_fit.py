"""What `submit` and `resume` refuse for its memory."""

from __future__ import annotations

import pytest

from fsdpctl.errors import UsageError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_job, parse_job, parse_profile
from fsdpctl.verbs.fit import check_memory, find_memory_problem

HOST = SubmitHost(run_id="r-aaaa", run_dir="/runs/r-aaaa", submit_dir="/me", python="/venv/bin/python", gpus=())
CARD = "gpu: h100-80"


def check(job: str, *overrides: str, gpu: str = CARD, force: bool = False) -> str | None:
    profile = parse_profile(f"name: big\nbackend: {{kind: slurm}}\nruns_root: /shared\ngpus_per_node: 8\n{gpu}\n", "p")
    spec = parse_job(job, "j") if "\n" in job else load_job(job, overrides)
    return check_memory(profile, spec, build_plan(profile, spec, HOST), force=force)


def test_ddp_of_7b_on_80_gb_is_refused_with_what_is_missing_and_the_smallest_change() -> None:
    message = (
        r"job llm7b needs about 1\d\d\.\d GiB of each GPU, and a h100-80 \(profile big\) has 79\.1: \d+\.\d GiB too"
    )
    with pytest.raises(UsageError, match=message) as error:
        check("llm7b", "trainer.mesh.strategy=DDP")
    assert error.value.hint is not None
    assert "--set trainer.mesh.strategy=SHARD_GRAD_OP" in error.value.hint
    assert "--force" in error.value.hint


def test_force_starts_it_with_a_warning() -> None:
    warning = check("llm7b", "trainer.mesh.strategy=DDP", force=True)
    assert warning is not None
    assert "too much" in warning


def test_what_fits_is_started_without_a_warning() -> None:
    assert check("llm7b") is None
    assert check("llm300m") is None


def test_less_than_5_percent_to_spare_is_a_warning() -> None:
    warning = check("llm7b", "trainer.batch.micro_batch=2", "trainer.mesh.units={blocks: 2}")
    assert warning is not None
    assert "only" in warning


def test_a_gpu_that_is_not_known_and_an_own_script_are_not_judged() -> None:
    assert check("llm7b", "trainer.mesh.strategy=DDP", gpu="") is None
    assert check("name: own\nnodes: 1\nentrypoint: {module: mine.train}\n") is None


def test_ranks_on_cpus_are_not_judged() -> None:
    profile = parse_profile(f"name: p\nbackend: local\n{CARD}\n", "p")
    job = load_job("llm7b", ["trainer.mesh.strategy=DDP"])
    assert find_memory_problem(profile, job, build_plan(profile, job, HOST)) is None
