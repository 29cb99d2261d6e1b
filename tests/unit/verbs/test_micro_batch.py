"""A job without a micro-batch gets one at `submit`, once."""

from __future__ import annotations

import pytest

from fsdpctl.errors import UsageError
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_job, parse_profile
from fsdpctl.verbs.submit import Request, plan_request

HOST = SubmitHost(run_id="r-aaaa", run_dir="/runs/r-aaaa", submit_dir="/me", python="/venv/bin/python", gpus=())


def plan(*overrides: str, profile: str = "gpus_per_node: 8\ngpu: h100-80\n") -> Request:
    text = f"name: big\nbackend: {{kind: slurm}}\nruns_root: /shared\n{profile}"
    return plan_request(parse_profile(text, "p"), load_job("llm7b", overrides), HOST)


def chosen(request: Request) -> int | None:
    assert request.job.trainer is not None
    return request.job.trainer.batch.micro_batch


def test_the_choice_is_in_the_job_and_reported() -> None:
    request = plan("trainer.batch.micro_batch=null")
    assert chosen(request) == 2
    assert [note.partition(":")[0] for note in request.notices] == ["micro-batch 2"]


def test_a_job_that_gives_one_keeps_it() -> None:
    request = plan("trainer.batch.micro_batch=1")
    assert (chosen(request), request.notices) == (1, ())


def test_without_the_kind_of_gpu_there_is_nothing_to_choose_by() -> None:
    with pytest.raises(UsageError, match=r"no trainer\.batch\.micro_batch, and profile big no `gpu`") as refused:
        plan("trainer.batch.micro_batch=null", profile="gpus_per_node: 8\n")
    assert "gpu: h100-80" in str(refused.value.hint)


def test_on_cpus_it_is_eight() -> None:
    request = plan("trainer.batch.micro_batch=null", profile="gpus_per_node: 0\nprocs_per_node: 8\n")
    assert (chosen(request), request.notices) == (8, ("micro-batch 8 at most, as always on CPUs",))


def test_what_does_not_fit_is_left_to_the_gate() -> None:
    request = plan("trainer.batch.micro_batch=null", "trainer.mesh.strategy=DDP")
    assert (chosen(request), request.notices) == (1, ())
