"""Keys of DeepSpeed's JSON."""

from __future__ import annotations

from typing import Any

from fsdpctl.other_launchers.carry import Row
from fsdpctl.other_launchers.values import is_true, number, one_of, whole, zero_stage
from fsdpctl.other_launchers.world import Batch

MARKS = (
    *("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "gradient_clipping"),
    *("steps_per_print", "wall_clock_breakdown", "zero_allow_untested_optimizer", "fp16", "bf16", "optimizer"),
)
BATCH = Batch("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")

_ADAM = "the bundled trainer has AdamW"
ZERO = "zero_optimization"
_NO_BUCKETS = "units of FSDP take the place of buckets"
_SCALING = "the bundled trainer scales the loss by itself"
OFFLOAD = "`memory.cpu_offload` moves parameters, gradients and moments together"
SCHEDULES = {"warmuplr": "constant", "warmupdecaylr": "linear", "warmupcosinelr": "cosine"}
LAST_RATIOS = {"warmupdecaylr": 0.0, "warmupcosinelr": 0.0001}
"""The last learning rate of a schedule as a fraction of the largest, where the file has none."""
WARMUP_STEPS = 1000
"""The steps of a warm-up where the file has none."""
_DEVICES = one_of({"cpu": True, "none": False}, "only CPUs take what GPUs do not hold")
_DTYPES = one_of({"fp32": "fp32", "bf16": "bf16", "bfp16": "bf16"}, "gradients are reduced in fp32 or bf16")


def _optimizer(key: str, to: str = "", **more: Any) -> Row:
    return Row(f"optimizer.params.{key}", to, **more)


def _scheduler(key: str, to: str = "", **more: Any) -> Row:
    return Row(f"scheduler.params.{key}", to, **more)


def _section(key: str, why: str) -> Row:
    return Row(key, why=why, is_section=True)


ROWS = (
    Row(BATCH.total, "trainer.batch.sequences", whole),
    Row(BATCH.micro, "trainer.batch.micro_batch", whole),
    Row(BATCH.accumulation, read=whole, why="it follows from `batch`", silent=(1,)),
    Row("gradient_clipping", "trainer.optim.clip_norm", number),
    Row("steps_per_print", "trainer.log_every", whole),
    Row("seed", "trainer.seed"),
    Row("communication_data_type", "trainer.reduce_dtype", _DTYPES),
    Row("bf16.enabled", read=is_true, decides="`trainer.precision`"),
    Row("fp16.enabled", read=is_true, decides="`trainer.precision`"),
    *(Row(f"fp16.{key}", why=_SCALING) for key in ("loss_scale", "initial_scale_power", "loss_scale_window")),
    *(
        Row(f"fp16.{key}", why=_SCALING)
        for key in ("hysteresis", "min_loss_scale", "auto_cast", "consecutive_hysteresis")
    ),
    Row(ZERO, why="older form of stage 1: write that"),
    Row(f"{ZERO}.stage", "trainer.mesh.strategy", zero_stage),
    *(
        Row(f"{ZERO}.{part}.device", read=_DEVICES, decides="`trainer.memory.cpu_offload`")
        for part in ("offload_optimizer", "offload_param")
    ),
    *(
        Row(f"{ZERO}.{part}.{key}", why="host memory is pinned and filled by FSDP")
        for part in ("offload_optimizer", "offload_param")
        for key in ("pin_memory", "buffer_count", "buffer_size", "fast_init", "nvme_path", "max_in_cpu", "ratio")
    ),
    Row(f"{ZERO}.mics_shard_size", "trainer.mesh.shard", whole),
    Row(f"{ZERO}.mics_hierarchical_params_gather", why="NCCL decides how it gathers"),
    Row(f"{ZERO}.zero_hpz_partition_size", why="HYBRID_SHARD keeps a whole copy on each node instead", silent=(1,)),
    *(Row(f"{ZERO}.{key}", why=_NO_BUCKETS) for key in ("allgather_bucket_size", "reduce_bucket_size")),
    *(Row(f"{ZERO}.{key}", why=_NO_BUCKETS) for key in ("allgather_partitions", "reduce_scatter", "sub_group_size")),
    *(
        Row(f"{ZERO}.{key}", why="`mesh.units` and `mesh.prefetch` decide what is gathered when")
        for key in ("stage3_prefetch_bucket_size", "stage3_max_live_parameters", "stage3_max_reuse_distance")
    ),
    Row(f"{ZERO}.stage3_param_persistence_threshold", why="small parameters belong to their unit"),
    Row(f"{ZERO}.overlap_comm", why="FSDP always overlaps", silent=(True,)),
    Row(f"{ZERO}.contiguous_gradients", why="always so in FSDP", silent=(True,)),
    Row(f"{ZERO}.round_robin_gradients", why="each rank reduces its shard"),
    Row(f"{ZERO}.stage3_gather_16bit_weights_on_model_save", why="see `fsdpctl checkpoints export`"),
    Row(f"{ZERO}.stage3_gather_fp16_weights_on_model_save", why="see `fsdpctl checkpoints export`"),
    Row("zero_allow_untested_optimizer", why="AdamW is tested", silent=(True,)),
    Row("zero_force_ds_cpu_optimizer", why="AdamW of torch updates on the CPU, too"),
    Row(
        "optimizer.type",
        read=one_of({"adamw": True, "adam": True, "fusedadam": True, "cpuadam": True}, _ADAM),
        decides="AdamW",
    ),
    _optimizer("lr", "trainer.optim.lr", read=number),
    _optimizer("betas", decides="`trainer.optim.beta1`, `trainer.optim.beta2`"),
    _optimizer("eps", "trainer.optim.eps", read=number),
    _optimizer("weight_decay", "trainer.optim.weight_decay", read=number),
    *(_optimizer(key, why=_ADAM) for key in ("torch_adam", "adam_w_mode", "fused", "momentum", "bias_correction")),
    Row(
        "scheduler.type",
        "trainer.optim.schedule",
        one_of(SCHEDULES, "the bundled trainer has constant, linear, cosine, wsd"),
    ),
    _scheduler("warmup_min_lr", why="the warm-up begins at 0", silent=(0, 0.0)),
    _scheduler("warmup_max_lr", "trainer.optim.lr", read=number),
    _scheduler("warmup_num_steps", "trainer.optim.warmup_steps"),
    _scheduler("total_num_steps", "trainer.steps", read=whole),
    _scheduler("warmup_type", why="the warm-up is linear", silent=("linear",)),
    _scheduler("warmup_min_ratio", why="the warm-up begins at 0", silent=(0, 0.0)),
    _scheduler("cos_min_ratio", "trainer.optim.min_lr_ratio", read=number),
    _scheduler("last_batch_iteration", why="a run continues from its checkpoint", silent=(-1,)),
    _section("activation_checkpointing", "it does not switch anything on by itself; `memory.recompute` does"),
    _section("flops_profiler", "MFU is in the metrics; `profile` traces steps"),
    _section("tensorboard", "metrics are always written for TensorBoard"),
    _section("wandb", "`report_to: [wandb]` of a job sends the metrics there"),
    _section("csv_monitor", "metrics are in metrics.jsonl"),
    _section("comms_logger", "`debug` of a job logs what NCCL does"),
    _section("data_efficiency", "the bundled trainer takes all data as it is"),
    _section("compression_training", "the bundled trainer compresses nothing"),
    _section("aio", "nothing is moved to NVMe"),
    _section("amp", "bf16 and fp16 are `precision`"),
    Row("wall_clock_breakdown", why="`profile` traces steps"),
    Row("prescale_gradients", why="gradients are averaged in the reduction"),
    Row("gradient_predivide_factor", why="gradients are averaged in the reduction", silent=(1, 1.0)),
    Row("dump_state", why="`fsdpctl jobs show` prints all keys"),
    Row("sparse_gradients", why="all gradients are dense"),
)
