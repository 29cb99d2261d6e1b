"""Keys of transformers' TrainingArguments."""

from __future__ import annotations

from typing import Any

from fsdpctl.other_launchers.carry import Row
from fsdpctl.other_launchers.values import LeftOutError, is_true, number, one_of, recompute, whole

MARKS = (
    *(
        "per_device_train_batch_size",
        "num_train_epochs",
        "output_dir",
        "fsdp",
        "fsdp_config",
        "per_device_eval_batch_size",
    ),
    *(
        "learning_rate",
        "lr_scheduler_type",
        "logging_steps",
        "save_steps",
        "save_strategy",
        "eval_strategy",
        "report_to",
    ),
    *(
        "max_steps",
        "model_name_or_path",
        "gradient_accumulation_steps",
        "do_train",
        "warmup_ratio",
        "overwrite_output_dir",
    ),
)
FSDP_OPTIONS = {
    "full_shard": "FULL_SHARD",
    "shard_grad_op": "SHARD_GRAD_OP",
    "no_shard": "NO_SHARD",
    "hybrid_shard": "HYBRID_SHARD",
    "hybrid_shard_zero2": "_HYBRID_SHARD_ZERO2",
    "offload": None,
    "auto_wrap": None,
}
"""The words of `fsdp`; those with a value are strategies, of which there is one."""

_SCHEDULES = {
    "linear": "linear",
    "cosine": "cosine",
    "cosine_with_min_lr": "cosine",
    "constant": "constant",
    "constant_with_warmup": "constant",
    "warmup_stable_decay": "wsd",
}
ENDS_AT_ZERO = ("linear", "cosine", "warmup_stable_decay")
"""Schedules whose last learning rate is 0, unless lr_scheduler_kwargs has another one."""
_DATA = "data of the bundled trainer is prepared before: see `fsdpctl data prepare`"
_METRICS = "metrics are in metrics.jsonl and TensorBoard's files of the run"
_UNITS = "`mesh.units` counts blocks"
_ADAM = {f"adamw_{name}": True for name in ("torch", "torch_fused", "hf", "torch_xla", "apex_fused")}


def _steps(value: Any) -> int:
    """Return a number of steps; fractions of a run depend on its length."""
    if isinstance(value, float) and value < 1:
        raise LeftOutError(f"{value} is a fraction of all steps: write a number of steps")
    return whole(_integral(value))


def _integral(value: Any) -> Any:
    """Return 100 for 100.0, which fields that also take a fraction have in a file; other values as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _max_steps(value: Any) -> int:
    if value == -1:
        raise LeftOutError("-1 means as many epochs as num_train_epochs: write a number of steps")
    return whole(value)


def _all(why: str, *keys: str) -> tuple[Row, ...]:
    return tuple(Row(key, why=why) for key in keys)


ROWS = (
    Row("per_device_train_batch_size", "trainer.batch.micro_batch", whole),
    Row("gradient_accumulation_steps", read=whole, decides="the global batch, which depends on the ranks"),
    Row("learning_rate", "trainer.optim.lr", number),
    Row("weight_decay", "trainer.optim.weight_decay", number),
    Row("adam_beta1", "trainer.optim.beta1", number),
    Row("adam_beta2", "trainer.optim.beta2", number),
    Row("adam_epsilon", "trainer.optim.eps", number),
    Row("max_grad_norm", "trainer.optim.clip_norm", number),
    Row("optim", read=one_of(_ADAM, "the bundled trainer has AdamW"), decides="AdamW"),
    Row("lr_scheduler_type", "trainer.optim.schedule", one_of(_SCHEDULES, f"there are {', '.join(_SCHEDULES)}")),
    Row("lr_scheduler_kwargs.min_lr_rate", "trainer.optim.min_lr_ratio", number),
    Row("lr_scheduler_kwargs.min_lr", why="`optim.min_lr_ratio` is a fraction of lr"),
    Row("lr_scheduler_kwargs.num_decay_steps", why="`optim.decay_ratio` is a fraction of all steps"),
    Row("warmup_steps", "trainer.optim.warmup_steps", _integral),
    Row("warmup_ratio", decides="`trainer.optim.warmup_steps`, with max_steps"),
    Row("max_steps", "trainer.steps", _max_steps),
    Row("num_train_epochs", decides="a note: `trainer.steps` depends on the size of the data"),
    Row("save_steps", "trainer.checkpoint.every_steps", _steps),
    Row("save_total_limit", "trainer.checkpoint.keep", whole),
    Row("eval_steps", "trainer.eval.every_steps", _steps),
    Row("logging_steps", "trainer.log_every", _steps),
    Row("seed", "trainer.seed"),
    Row("full_determinism", "trainer.deterministic"),
    Row("data_seed", why="`seed` decides the order of the data, too"),
    Row("bf16", read=is_true, decides="`trainer.precision`"),
    Row("fp16", read=is_true, decides="`trainer.precision`"),
    Row("tf32", why="products of fp32 are the bundled trainer's own choice"),
    Row("torch_compile", "trainer.compile", is_true),
    Row("gradient_checkpointing", "trainer.memory.recompute", recompute),
    Row("run_name", "job.name"),
    Row("fsdp", decides="`trainer.mesh.strategy`, `trainer.memory.cpu_offload`"),
    Row("fsdp_config.activation_checkpointing", "trainer.memory.recompute", recompute),
    Row("fsdp_config.version", why="the bundled trainer has FSDP 2", silent=(2,)),
    Row("fsdp_config.fsdp_version", why="the bundled trainer has FSDP 2", silent=(2,)),
    Row("fsdp_config.reshard_after_forward", decides="`trainer.mesh.strategy`, with fsdp"),
    Row("fsdp_config.min_num_params", "trainer.mesh.units.parameters", _steps, absent=(0,)),
    *_all(_UNITS, "fsdp_config.transformer_layer_cls_to_wrap", "fsdp_config.fsdp_transformer_layer_cls_to_wrap"),
    *_all(
        "FSDP 2 always prefetches as BACKWARD_PRE",
        "fsdp_config.backward_prefetch",
        "fsdp_config.fsdp_backward_prefetch",
    ),
    *_all("`mesh.prefetch` is a number of units", "fsdp_config.forward_prefetch", "fsdp_config.limit_all_gathers"),
    *_all("always so in FSDP 2", "fsdp_config.use_orig_params"),
    *_all("all ranks begin with the same weights", "fsdp_config.sync_module_states"),
    *_all("each rank reads only its part", "fsdp_config.cpu_ram_efficient_loading"),
    *_all("checkpoints are always sharded", "fsdp_config.state_dict_type"),
    *_all("for TPUs only", "fsdp_config.xla", "fsdp_config.xla_fsdp_v2", "fsdp_config.xla_fsdp_settings"),
    *_all("for TPUs only", "fsdp_config.xla_fsdp_grad_ckpt", "tpu_num_cores"),
    *_all(_UNITS, "fsdp_transformer_layer_cls_to_wrap"),
    *_all(_DATA, "dataset_name", "dataset_config_name", "train_file", "validation_file", "max_train_samples"),
    *_all(_DATA, "dataloader_num_workers", "dataloader_pin_memory", "dataloader_drop_last", "group_by_length"),
    *_all(_DATA, "preprocessing_num_workers", "remove_unused_columns", "dataloader_prefetch_factor", "streaming"),
    *_all(
        "`init_from` takes the weights of a Llama",
        "model_name_or_path",
        "tokenizer_name",
        "config_name",
        "torch_dtype",
    ),
    *_all("runs have directories of their own", "output_dir", "logging_dir", "overwrite_output_dir"),
    *_all(_METRICS, "report_to", "logging_first_step", "logging_strategy", "log_level", "logging_nan_inf_filter"),
    *_all("a job trains always, and evaluates by `eval`", "do_train", "do_eval", "do_predict"),
    *(
        Row(key, why="a job evaluates by `eval`", decides="`trainer.eval.sequences: 0`, for no")
        for key in ("eval_strategy", "evaluation_strategy")
    ),
    Row("save_strategy", why="`checkpoint` decides", decides="`trainer.checkpoint.mode: none`, for no"),
    *_all("`eval.sequences` is what an evaluation takes", "per_device_eval_batch_size", "eval_accumulation_steps"),
    *_all("`checkpoint` decides", "save_safetensors", "save_only_model", "load_best_model_at_end"),
    *_all("a run continues from its newest checkpoint by itself", "resume_from_checkpoint", "ignore_data_skip"),
    *_all("see `fsdpctl checkpoints export`", "push_to_hub", "hub_model_id", "hub_strategy", "hub_private_repo"),
    *_all("`memory.recompute` has no options", "gradient_checkpointing_kwargs"),
    *_all("compiled in the default mode", "torch_compile_backend", "torch_compile_mode"),
    *_all(
        "gradients are reduced by FSDP", "ddp_find_unused_parameters", "ddp_bucket_cap_mb", "ddp_backend", "ddp_timeout"
    ),
    *_all("import that file, too", "deepspeed"),
    *_all("fsdpctl starts the ranks", "local_rank"),
)
