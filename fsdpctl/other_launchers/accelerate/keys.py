"""Keys of `accelerate config`, and the variables by which `accelerate launch` passes their values on."""

from __future__ import annotations

from typing import Any

from fsdpctl.other_launchers.carry import Row
from fsdpctl.other_launchers.values import is_true, number, one_of, precision, recompute, strategy, whole, zero_stage

MARKS = ("distributed_type", "compute_environment", "num_machines", "machine_rank", "main_process_ip", "gpu_ids")
"""Keys that only such a file has."""

PARALLEL = "parallelism_config"
_WRAPS = ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP")
_HERE = ("local_machine", "multi_machine")
_DISTRIBUTED = ("fsdp", "deepspeed", "no", "multi_gpu", "multi_cpu")
_COMPILE = one_of({"no": False, "inductor": True}, "the bundled trainer compiles with inductor")
_TPU = ("tpu_name", "tpu_zone", "tpu_env", "tpu_vm", "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands")
_OFFLOAD = "`memory.cpu_offload` moves parameters, gradients and moments together"
_CPU = "`trainer.memory.cpu_offload` for cpu"
_PREFETCH = "FSDP 2 always prefetches as BACKWARD_PRE"


def reshard_strategy(value: Any) -> str:
    """Return the strategy of FSDP 2's true or false, or of FSDP 1's name."""
    if str(value).lower() in ("true", "false"):
        return "FULL_SHARD" if is_true(value) else "SHARD_GRAD_OP"
    return strategy(value)


def _wrap(value: Any) -> str:
    names = {name.lower(): name for name in _WRAPS}
    return str(one_of({**names, **{str(place): name for place, name in enumerate(_WRAPS, start=1)}})(value))


def _upper(value: Any) -> str:
    return str(value).upper()


def _lower(value: Any) -> str:
    return str(value).lower()


def _compile(key: str, why: str) -> Row:
    return Row(f"dynamo_config.{key}", env=f"ACCELERATE_{key.upper()}", write_env=str, why=why)


def _fsdp(key: str, env: str, to: str = "", **more: Any) -> Row:
    return Row(f"fsdp_config.fsdp_{key}", to, env=f"FSDP_{env}", **more)


def _parallel(key: str, to: str = "", **more: Any) -> Row:
    return Row(f"{PARALLEL}.{PARALLEL}_{key}", to, env=f"PARALLELISM_CONFIG_{key.upper()}", **more)


def _zero(key: str, env: str, to: str = "", **more: Any) -> Row:
    return Row(f"deepspeed_config.{key}", to, env=f"ACCELERATE_{env}", **more)


ROWS = (
    Row("compute_environment", read=one_of(dict.fromkeys(_HERE)), decides="must be a machine, not SageMaker"),
    Row("distributed_type", read=one_of(dict.fromkeys(_DISTRIBUTED)), decides="`mesh.strategy: DDP` for MULTI_GPU"),
    Row("num_machines", "job.nodes", whole),
    Row("num_processes", read=whole, decides="`procs_per_node`, divided by num_machines"),
    Row("machine_rank", why="fsdpctl numbers the nodes", silent=(0,)),
    Row("main_process_ip", decides="`profile.nodes`, of several machines: the head"),
    Row("main_process_port", decides="`profile.ports`, of several machines"),
    Row("rdzv_backend", "profile.rendezvous", one_of({"static": "static", "c10d": "c10d"})),
    Row("same_network", why="nodes reach each other by the addresses of the profile", silent=(True,)),
    Row("main_training_function", why="for TPUs and notebooks only", silent=("main",)),
    Row("num_cpu_threads_per_process", env="OMP_NUM_THREADS"),
    Row("gpu_ids", why="each rank gets its GPU from fsdpctl", silent=("all",)),
    Row("mixed_precision", "trainer.precision", precision, "ACCELERATE_MIXED_PRECISION", _lower),
    Row(
        "fp8_config",
        why="write its keys as ACCELERATE_FP8_... under `env`; the bundled trainer has `precision: float8`",
        is_section=True,
    ),
    Row("fp16", why="older form of mixed_precision: write that"),
    Row("downcast_bf16", why="for TPUs only"),
    Row("use_cpu", read=is_true, env="ACCELERATE_USE_CPU", write_env=str, decides="`profile.gpus_per_node: 0`"),
    Row(
        "debug",
        read=is_true,
        env="ACCELERATE_DEBUG_MODE",
        write_env=lambda given: "true" if is_true(given) else None,
        why="`debug` of a job logs what NCCL does",
    ),
    Row(
        "enable_cpu_affinity",
        read=is_true,
        env="ACCELERATE_CPU_AFFINITY",
        write_env=lambda given: "1" if is_true(given) else None,
    ),
    Row("dynamo_backend", "trainer.compile", _COMPILE, "ACCELERATE_DYNAMO_BACKEND", _upper),
    Row("dynamo_config.dynamo_backend", "trainer.compile", _COMPILE, "ACCELERATE_DYNAMO_BACKEND", _upper),
    Row("dynamo_config.dynamo_mode", env="ACCELERATE_DYNAMO_MODE", why="always the default mode", silent=("default",)),
    _compile("dynamo_use_fullgraph", "each block is one graph"),
    _compile("dynamo_use_dynamic", "all shapes are static"),
    _compile("dynamo_use_regional_compilation", "each block is compiled by itself"),
    *(Row(key, why="for TPUs only") for key in _TPU),
    _fsdp("version", "VERSION", why="the bundled trainer has FSDP 2", silent=(2,)),
    _fsdp(
        "sharding_strategy",
        "SHARDING_STRATEGY",
        "trainer.mesh.strategy",
        read=strategy,
        write_env=lambda given: strategy(given).lstrip("_"),
    ),
    _fsdp(
        "reshard_after_forward",
        "RESHARD_AFTER_FORWARD",
        "trainer.mesh.strategy",
        read=reshard_strategy,
        write_env=_lower,
    ),
    _fsdp("offload_params", "OFFLOAD_PARAMS", "trainer.memory.cpu_offload", read=is_true),
    _fsdp("auto_wrap_policy", "AUTO_WRAP_POLICY", read=_wrap, write_env=_wrap, decides="`trainer.mesh.units`"),
    _fsdp("transformer_layer_cls_to_wrap", "TRANSFORMER_CLS_TO_WRAP", why="`mesh.units` counts blocks"),
    _fsdp("min_num_params", "MIN_NUM_PARAMS", decides="`trainer.mesh.units.parameters`, with SIZE_BASED_WRAP"),
    _fsdp("backward_prefetch", "BACKWARD_PREFETCH", why=_PREFETCH, silent=("BACKWARD_PRE", 1)),
    _fsdp("backward_prefetch_policy", "BACKWARD_PREFETCH", why=_PREFETCH, silent=("BACKWARD_PRE", 1)),
    _fsdp("forward_prefetch", "FORWARD_PREFETCH", why="`mesh.prefetch` is a number of units"),
    _fsdp("state_dict_type", "STATE_DICT_TYPE", why="checkpoints are always sharded", silent=("SHARDED_STATE_DICT",)),
    _fsdp("use_orig_params", "USE_ORIG_PARAMS", why="always so in FSDP 2", silent=(True,)),
    _fsdp("sync_module_states", "SYNC_MODULE_STATES", why="all ranks begin with the same weights", silent=(True,)),
    _fsdp(
        "cpu_ram_efficient_loading", "CPU_RAM_EFFICIENT_LOADING", why="each rank reads only its part", silent=(True,)
    ),
    _fsdp("activation_checkpointing", "ACTIVATION_CHECKPOINTING", "trainer.memory.recompute", read=recompute),
    _fsdp("ignored_modules", "IGNORED_MODULES", why="all modules are sharded"),
    _fsdp("activation_checkpointing_offload", "ACTIVATION_CHECKPOINTING_OFFLOAD", why="activations stay on the GPU"),
    _parallel("dp_replicate_size", "trainer.mesh.replicate", read=whole, decides="`trainer.mesh.strategy`"),
    _parallel("dp_shard_size", "trainer.mesh.shard", read=whole),
    *(
        _parallel(f"{kind}_size", read=whole, why="all ranks are data-parallel", silent=(1,))
        for kind in ("tp", "cp", "sp")
    ),
    *(_parallel(key, why="all ranks are data-parallel") for key in ("cp_backend", "cp_comm_strategy", "sp_backend")),
    _zero("zero_stage", "DEEPSPEED_ZERO_STAGE", "trainer.mesh.strategy", read=zero_stage),
    _zero("gradient_accumulation_steps", "GRADIENT_ACCUMULATION_STEPS", why="it follows from `batch`", silent=(1,)),
    _zero("gradient_clipping", "GRADIENT_CLIPPING", "trainer.optim.clip_norm", read=number),
    _zero("offload_optimizer_device", "DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", why=_OFFLOAD, decides=_CPU),
    _zero("offload_param_device", "DEEPSPEED_OFFLOAD_PARAM_DEVICE", why=_OFFLOAD, decides=_CPU),
    _zero("zero3_init_flag", "DEEPSPEED_ZERO3_INIT", why="weights are always created in parts", silent=(True,)),
    _zero("zero3_save_16bit_model", "DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", why="see `fsdpctl checkpoints export`"),
    _zero("deepspeed_moe_layer_cls_names", "DEEPSPEED_MOE_LAYER_CLS_NAMES", why="the bundled trainer has no experts"),
    _zero("deepspeed_config_file", "DEEPSPEED_CONFIG_FILE", why="import that file, too"),
    Row("deepspeed_config.deepspeed_multinode_launcher", why="fsdpctl starts the nodes"),
    Row("deepspeed_config.deepspeed_hostfile", why="write its hosts under `nodes` of a profile"),
)
"""The variables are those of `accelerate launch`, in accelerate/utils/launch.py."""
