"""The variables of a command with `accelerate launch` are those that Accelerate itself would set."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from fsdpctl.specs.load import parse_job

SAMPLES = Path(__file__).parents[2] / "importers" / "samples" / "accelerate"
COMMANDS = [
    *(f"--config_file {SAMPLES / name}.yaml" for name in ("fsdp1-names", "fsdp1-reshard", "fsdp2", "multi-gpu")),
    *(f"--config_file {SAMPLES / name}.yaml" for name in ("cpu", "zero2", "zero3-offload", "zero-file")),
    f"--config_file {SAMPLES / 'fsdp2.yaml'} --mixed_precision no --fsdp_offload_params true",
    "--use_fsdp --num_processes 2 --fsdp_version 2 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP",
    "--use_fsdp --fsdp_version 2 --num_processes 4 --use_parallelism_config --parallelism_config_dp_shard_size 4",
    "--multi_gpu --num_processes 2 --dynamo_backend inductor --dynamo_use_dynamic --debug",
    "--use_deepspeed --zero_stage 2 --num_processes 2",
    "--cpu --num_processes 2",
]
OF_THE_MACHINE = "OMP_NUM_THREADS"


def set_by_accelerate(words: list[str]) -> dict[str, str]:
    """Return what `accelerate launch` would set, by its own code."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import launch

    args, defaults, has_precision = _validate_launch_command(launch_command_parser().parse_args(words))
    fields = [*(defaults.deepspeed_config if defaults else ()), *(["mixed_precision"] if has_precision else [])]
    args.deepspeed_fields_from_accelerate_config = ",".join(fields)
    if args.use_deepspeed:
        env = launch.prepare_deepspeed_cmd_env(args)[1]
    elif args.use_fsdp or args.multi_gpu:
        env = launch.prepare_multi_gpu_env(args)
    else:
        env = launch.prepare_simple_launcher_cmd_env(args)[1]
    return {name: env[name] for name in env if name.startswith(("ACCELERATE_", "FSDP_", "PARALLELISM_CONFIG_"))}


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("accelerate")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv(OF_THE_MACHINE, "1")


@pytest.mark.slow  # imports accelerate
def test_a_command_sets_what_accelerate_sets() -> None:
    for options in COMMANDS:
        words = [*options.split(), "train.py"]
        command = shlex.join(["accelerate", "launch", *words])
        job = parse_job(f"name: x\ncommand: {command}\n", "j.yaml")
        assert {name: job.env[name] for name in job.env if name != OF_THE_MACHINE} == set_by_accelerate(words), options
