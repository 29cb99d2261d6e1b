"""Names in the YAML of hand-written FSDP trainers, and what has their meaning in a job."""

from __future__ import annotations

from fsdpctl.other_launchers.carry import Row, dotted
from fsdpctl.other_launchers.values import (
    LeftOutError,
    Read,
    WrongError,
    duration,
    is_true,
    number,
    one_of,
    precision,
    recompute,
    same,
    strategy,
    whole,
)
from fsdpctl.schema.keys import walk
from fsdpctl.schema.problems import KeyPath
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.other_names import OTHER_NAMES

TOTAL = ("train_batch", "global_batch_size", "global_batch", "train_batch_size", "total_batch_size")
MICRO = ("micro_batch", "micro_batch_size", "local_batch_size", "per_device_batch_size", "batch_size")
ACCUMULATION = ("gradient_accumulation_steps", "gradient_accumulation", "grad_accum", "accumulate_grad_batches")
WORLD = ("world_size", "num_gpus", "n_gpus", "ngpus", "gpus", "devices", "num_processes")
NODES = ("nodes", "nnodes", "num_nodes", "n_nodes")
PROCS = ("procs_per_node", "nproc_per_node", "gpus_per_node", "ntasks_per_node")
"""Names of one number each; the first that a file has counts."""

MARKS = (
    "sharding_strategy",
    "fsdp",
    "train_batch",
    "micro_batch",
    "world_size",
    "compile",
    "lr",
    "wrap_policy",
    "hsdp",
)

_OWN_NAMES = (
    *("lr", "beta1", "beta2", "eps", "weight_decay", "clip_norm", "schedule", "warmup_steps", "min_lr_ratio"),
    *(
        "steps",
        "seed",
        "deterministic",
        "compile",
        "precision",
        "reduce_dtype",
        "recompute",
        "cpu_offload",
        "strategy",
        "log_every",
    ),
    *("vocab_size", "d_model", "layers", "heads", "kv_heads", "head_dim", "ffn", "seq_len", "tie_embeddings"),
    *("rope_theta", "norm_eps", "dropout", "replicate", "shard"),
)
"""Keys of a job whose names such files have with the same meaning."""

_NOT_MEANT = "trainer.float8."
"""Keys of a job with names that mean another key there: `layers` is a number."""

_SCHEDULES = {name: name for name in ("cosine", "linear", "constant", "wsd")}
_READERS: dict[str, Read] = {
    "trainer.mesh.strategy": strategy,
    "trainer.precision": precision,
    "trainer.memory.recompute": recompute,
    "trainer.memory.cpu_offload": is_true,
    "trainer.compile": is_true,
    "trainer.steps": whole,
    "job.time_limit": duration,
    "trainer.optim.lr": number,
    "trainer.optim.weight_decay": number,
    "trainer.optim.clip_norm": number,
    "trainer.optim.schedule": one_of(_SCHEDULES, f"there are {', '.join(_SCHEDULES)}"),
}
_OTHER_MEANING = {
    **dict.fromkeys(("epochs", "num_epochs", "num_train_epochs", "max_epochs"), "a job has `steps`, not epochs"),
    "warmup_ratio": "`optim.warmup_steps` is a number of steps",
    **dict.fromkeys(("wrap_policy", "auto_wrap_policy", "fsdp_auto_wrap_policy"), "`mesh.units` counts blocks"),
    "fsdp_transformer_layer_cls_to_wrap": "`mesh.units` counts blocks",
    **dict.fromkeys(("forward_prefetch", "backward_prefetch"), "`mesh.prefetch` is a number of units"),
    **dict.fromkeys(("dataset", "dataset_name", "dataset_path"), "data is prepared before: `fsdpctl data prepare`"),
    **dict.fromkeys(("data_path", "data_dir"), "data is prepared before: `fsdpctl data prepare`"),
    "timeout": "`hang` of a job limits how long ranks wait",
    "fsdp_config": "import that file, too",
    "optimizer": "the bundled trainer has AdamW",
    "backend": "NCCL on GPUs, gloo without",
    **dict.fromkeys(("rank", "local_rank", "master_addr", "master_port"), "fsdpctl sets it for every rank"),
    **dict.fromkeys(("output_dir", "checkpoint_dir", "save_dir", "log_dir"), "runs have directories of their own"),
}
SIZES = ("vocab_size", "d_model", "layers", "heads", "kv_heads", "head_dim", "ffn")
"""Keys of a model that belong together."""
MODEL = (*SIZES, "seq_len")


def _true_as(name: str) -> Read:
    def read(value: object) -> str:
        if not is_true(value):
            raise LeftOutError(f"another precision than {name} is not named")
        return name

    return read


def _lenient(read: Read) -> Read:
    """Return a reader that leaves a value out which means something else in the user's program."""

    def read_or_leave(value: object) -> object:
        try:
            return read(value)
        except WrongError as error:
            raise LeftOutError(str(error)) from None

    return read_or_leave


def _make_rows() -> tuple[Row, ...]:
    """Return a row for each name in use: those of a job itself, and those of other programs with the same meaning."""
    names = [key.dotted for key in walk(JobSpec) if not key.dotted.startswith(_NOT_MEANT)]
    paths = sorted(names, key=lambda path: -path.count("."))
    own = {path.rpartition(".")[2]: path for path in paths}
    targets = {**OTHER_NAMES, **{name: own[name] for name in _OWN_NAMES}, "name": "name"}
    decided = {
        **dict.fromkeys(TOTAL, "`trainer.batch.sequences`"),
        **dict.fromkeys(MICRO, "`trainer.batch.micro_batch`"),
        **dict.fromkeys(ACCUMULATION, "must agree with the batch"),
        **dict.fromkeys((*WORLD, *NODES, *PROCS), "`nodes`, `procs_per_node`"),
    }
    rows = [Row(name, read=_lenient(whole), decides=text) for name, text in decided.items()]
    rows += [Row(name, why=why) for name, why in _OTHER_MEANING.items()]
    rows += [Row(name, "trainer.precision", _lenient(_true_as(name))) for name in ("bf16", "fp16")]
    rows += [Row("fsdp", decides="`trainer.mesh.strategy`"), Row("amp", why="name the precision")]
    known = {row.key for row in rows}
    for name, target in targets.items():
        if name not in known and " " not in target:
            key = target if target.startswith("trainer.") else f"job.{target}"
            read = _READERS.get(key, same)
            rows.append(Row(name, key, read if read in (strategy, precision) else _lenient(read)))
    return tuple(rows)


def row_name(path: KeyPath) -> str:
    """Return the name of a row for a path: its last key, but `name` is the job's only at the top."""
    last = str(path[-1]).lower()
    return last if last != "name" or len(path) == 1 else dotted(path)


ROWS = _make_rows()
