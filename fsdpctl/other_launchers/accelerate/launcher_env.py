"""The variables that `accelerate launch` always sets, where neither its file nor an option gives another value.

They are those of accelerate 1.15, in accelerate/utils/launch.py, with the defaults of its parser. A script sees a
difference: without FSDP_SYNC_MODULE_STATES, for one, Accelerate does not broadcast the weights of rank 0.
"""

from __future__ import annotations

from fsdpctl.other_launchers.draft import Draft

_PRECISION = {"ACCELERATE_MIXED_PRECISION": "no"}
_COMPILE = {
    "ACCELERATE_DYNAMO_BACKEND": "NO",
    "ACCELERATE_DYNAMO_MODE": "default",
    "ACCELERATE_DYNAMO_USE_FULLGRAPH": "False",
    "ACCELERATE_DYNAMO_USE_DYNAMIC": "False",
    "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION": "False",
}
_FSDP = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "1",
    "FSDP_SHARDING_STRATEGY": "FULL_SHARD",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_OFFLOAD_PARAMS": "false",
    "FSDP_MIN_NUM_PARAMS": "100000000",
    "FSDP_FORWARD_PREFETCH": "false",
    "FSDP_USE_ORIG_PARAMS": "true",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    "FSDP_SYNC_MODULE_STATES": "true",
    "FSDP_ACTIVATION_CHECKPOINTING": "false",
    "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD": "false",
}
_PARALLEL = {
    "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
    "PARALLELISM_CONFIG_DP_REPLICATE_SIZE": "1",
    "PARALLELISM_CONFIG_DP_SHARD_SIZE": "1",
    "PARALLELISM_CONFIG_TP_SIZE": "1",
    "PARALLELISM_CONFIG_CP_SIZE": "1",
    "PARALLELISM_CONFIG_CP_BACKEND": "torch",
    "PARALLELISM_CONFIG_SP_SIZE": "1",
    "PARALLELISM_CONFIG_SP_BACKEND": "deepspeed",
}
_DEEPSPEED = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_CONFIG_DS_FIELDS": ""}
USE_CPU = "ACCELERATE_USE_CPU"


def add_launcher_env(draft: Draft, kind: str) -> None:
    """Add what the launcher sets for a `distributed_type`, below what was found."""
    of_kind = {"FSDP": {**_COMPILE, **_FSDP}, "DEEPSPEED": _DEEPSPEED}.get(kind, _COMPILE)
    parallel = _PARALLEL if "ACCELERATE_USE_PARALLELISM_CONFIG" in draft.env else {}
    without_cpu = {name: value for name, value in draft.env.items() if name != USE_CPU or _starts_alone(kind)}
    use_cpu = {USE_CPU: "False"} if _starts_alone(kind) else {}
    draft.env = {**use_cpu, **_PRECISION, **of_kind, **parallel, **without_cpu}


def _starts_alone(kind: str) -> bool:
    """Return whether `accelerate launch` starts the script without torchrun: then it passes `use_cpu` on."""
    return kind not in ("FSDP", "DEEPSPEED", "MULTI_GPU")
