from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.commands.environment import node_env
from fsdpctl.contract.plan import NodeContext
from fsdpctl.errors import UsageError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import parse_job, parse_profile
from tests.backends.harness import fsdpctl

CONTEXT = NodeContext(0, 2, "10.0.0.1", 24_000, "ib0")
NODE_DIR = "/runs/r/attempts/2/node-0"


def env(job: str = "", profile: str = "", gpus: tuple[str, ...] = ("0", "1")) -> dict[str, str]:
    site = SubmitHost("r", "/runs/r", "/home/me", "/venv/bin/python", gpus)
    plan = build_plan(
        parse_profile(f"name: p\nbackend: local\n{profile}", "p.yaml"),
        parse_job(f"name: j\nentrypoint: {{script: x.py}}\n{job}", "j.yaml"),
        site,
    )
    return node_env(plan, CONTEXT)


def test_without_debug_only_what_costs_nothing_is_on() -> None:
    found = env()
    assert found["TORCH_FR_DUMP_TEMP_FILE"] == f"{NODE_DIR}/flight-rank-"
    assert found["TORCH_FR_BUFFER_SIZE"] == "2000"
    assert (found["TORCH_NCCL_DUMP_ON_TIMEOUT"], found["PYTHONFAULTHANDLER"]) == ("1", "1")
    assert not {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "TORCH_DISTRIBUTED_DEBUG"} & set(found)


def test_info_gives_every_rank_its_own_file() -> None:
    found = env("debug: info\n")
    assert (found["NCCL_DEBUG"], found["TORCH_DISTRIBUTED_DEBUG"]) == ("INFO", "INFO")
    assert found["NCCL_DEBUG_FILE"] == f"{NODE_DIR}/nccl-%h-%p.log"
    assert "NCCL_DEBUG_SUBSYS" not in found


def test_trace_enables_everything() -> None:
    found = env("debug: trace\n")
    assert found["TORCH_DISTRIBUTED_DEBUG"] == "DETAIL"
    assert "COLL" in found["NCCL_DEBUG_SUBSYS"].split(",")
    assert found["TORCH_SHOW_CPP_STACKTRACES"] == "1"
    assert int(found["TORCH_FR_BUFFER_SIZE"]) > 2000


def test_the_job_overrides_the_profile_and_off_is_off() -> None:
    assert env("", "debug: info\n")["NCCL_DEBUG"] == "INFO"
    assert "NCCL_DEBUG_SUBSYS" in env("debug: trace\n", "debug: info\n")
    assert "NCCL_DEBUG" not in env("debug: off\n", "debug: info\n")


def test_a_level_overrides_a_quiet_profile_and_a_default_does_not() -> None:
    quiet = "network: {nccl: {NCCL_DEBUG: WARN}}\nenv: {TORCH_FR_BUFFER_SIZE: '0'}\n"
    assert env("", quiet)["NCCL_DEBUG"] == "WARN"
    assert env("", quiet)["TORCH_FR_BUFFER_SIZE"] == "0"
    assert env("debug: info\n", quiet)["NCCL_DEBUG"] == "INFO"


def test_without_gpus_there_is_no_nccl() -> None:
    found = env("debug: trace\n", gpus=())
    assert not any("NCCL" in name and name != "NCCL_SOCKET_IFNAME" for name in found)
    assert found["TORCH_DISTRIBUTED_DEBUG"] == "DETAIL"
    assert env(gpus=())["TORCH_FR_BUFFER_SIZE"] == "2000", "which records gloo's collectives, too"


def test_the_option_is_an_override_like_the_others(tmp_path: Path) -> None:
    args = ("submit", "llm-tiny", "--dry-run", "--json", "--profile", "slurm-h100")
    planned = json.loads(fsdpctl(*args, "--debug", "info", cwd=tmp_path).stdout)
    assert planned["nodes"][0]["env"]["NCCL_DEBUG"] == "INFO"
    error = json.loads(fsdpctl(*args, "--debug", "loud", cwd=tmp_path, expect=2).stderr)["error"]
    assert 'debug: must be one of off, info, trace, got "loud"' in error["message"]


def test_a_wrong_level_is_explained() -> None:
    with pytest.raises(UsageError, match="debug: must be one of off, info, trace"):
        env("debug: verbose\n")


def test_ranks_of_accelerate_train_together_on_cpus() -> None:
    assert env(gpus=())["ACCELERATE_USE_CPU"] == "true"
    assert env("env: {ACCELERATE_USE_CPU: 'false'}\n", gpus=())["ACCELERATE_USE_CPU"] == "false"
    assert "ACCELERATE_USE_CPU" not in env()
