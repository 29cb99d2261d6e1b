"""torchtitan 0.2.2 on the shape of a bundled job, with random tokens from memory: the peer of the bundled trainer.

    torchrun ... -m bench.gpu.torchtitan_peer TRAINER_JSON --replicate R --shard S [--checkpoints FOLDER]

Rank 0 prints, after `RESULT`, when every step ended and the peak of memory. With a folder it continues from the
newest checkpoint there and writes one at its end. torchtitan, torchdata and datasets are installed for the measurement;
nothing here depends on them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torchtitan.models.llama3 as llama3
from torch.utils.data import IterableDataset
from torchtitan.components.dataloader import ParallelAwareDataloader
from torchtitan.config import JobConfig
from torchtitan.protocols.train_spec import register_train_spec
from torchtitan.train import Trainer

from train.metrics.device_timestamp import DeviceTimestamp

POOL = 256  # different sequences


class Synthetic(IterableDataset):  # type: ignore[type-arg]
    def __init__(self, vocab_size: int, seq_len: int, rank: int) -> None:
        generator = torch.Generator().manual_seed(rank)
        self.pool = torch.randint(0, vocab_size, (POOL, seq_len + 1), generator=generator)
        self.position = 0

    def __iter__(self) -> Iterator[Any]:
        while True:
            row = self.pool[self.position % POOL]
            self.position += 1
            yield {"input": row[:-1]}, row[1:]

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--replicate", type=int, default=1)
    parser.add_argument("--shard", type=int, default=1)
    parser.add_argument("--checkpoints", type=Path)
    args = parser.parse_args()
    trainer = Trainer(_job(json.loads(args.config.read_text()), args.replicate, args.shard, args.checkpoints))
    parameters = sum(p.numel() for p in trainer.model_parts[0].parameters())
    began, ends = DeviceTimestamp(trainer.device), []
    began.wait()
    began_s = time.time()
    train_step = trainer.train_step

    def timed(batches: Any) -> None:
        train_step(batches)
        ends.append(DeviceTimestamp(trainer.device))  # no step waits for it, as in the bundled trainer

    trainer.train_step = timed
    trainer.train()
    ends[-1].wait()
    report([began_s + end.seconds_since(began) for end in ends], parameters)
    trainer.close()
    torch.distributed.destroy_process_group()


def report(ended: list[float], parameters: int) -> None:
    if os.environ["RANK"] == "0":
        peak_gib = torch.cuda.max_memory_allocated() / 2**30
        print("RESULT", json.dumps({"ended": ended, "peak_gib": peak_gib, "parameters": parameters}), flush=True)


def shape(model: dict[str, Any]) -> llama3.TransformerModelArgs:
    # Width of the SwiGLU: torchtitan derives it from `dim`, for our jobs of vocabulary 32768 and llm7b to the same.
    return llama3.TransformerModelArgs(
        dim=model["d_model"],
        n_layers=model["layers"],
        n_heads=model["heads"],
        n_kv_heads=model["kv_heads"],
        vocab_size=model["vocab_size"],
    )


def _job(config: dict[str, Any], replicate: int, shard: int, checkpoints: Path | None) -> JobConfig:
    model, batch = config["model"], config["batch"]["micro_batch"]

    def loader(dp_world_size: int, dp_rank: int, **_: Any) -> ParallelAwareDataloader:
        tokens = Synthetic(model["vocab_size"], model["seq_len"], dp_rank)
        return ParallelAwareDataloader(tokens, dp_rank, dp_world_size, batch_size=batch, num_workers=1, pin_memory=True)

    spec = dataclasses.replace(
        llama3.get_train_spec(),
        model_args={"ours": shape(model)},
        build_dataloader_fn=loader,
        build_tokenizer_fn=None,
        build_validator_fn=None,
        state_dict_adapter=None,
    )
    register_train_spec("peer", spec)
    job = JobConfig()
    job.job.dump_folder = str(checkpoints or Path(tempfile.mkdtemp(), "out"))
    job.checkpoint.enable = checkpoints is not None
    job.checkpoint.interval = 1_000_000  # only at the end, and then all that a resume needs
    job.checkpoint.last_save_model_only = False
    job.model.name, job.model.flavor = "peer", "ours"
    job.training.local_batch_size = batch
    job.training.seq_len, job.training.steps = model["seq_len"], config["steps"]
    job.parallelism.data_parallel_replicate_degree = replicate
    job.parallelism.data_parallel_shard_degree = shard
    job.activation_checkpoint.mode = "none"
    job.compile.enable = True
    job.metrics.log_freq = 10_000
    job.lr_scheduler.warmup_steps = 10
    if config.get("precision") == "float8":
        _set_float8(job, config.get("float8", {}).get("recipe", "tensorwise"))
    return job


def _set_float8(job: JobConfig, recipe: str) -> None:
    """Set what its documentation recommends: the output layer stays in bf16, weights are gathered in float8."""
    job.model.converters = ["quantize.linear.float8"]
    float8 = job.quantize.linear.float8
    float8.filter_fqns = ["output"]
    if recipe == "tensorwise":
        float8.enable_fsdp_float8_all_gather = True
        float8.precompute_float8_dynamic_scale_for_fsdp = True
    else:
        float8.recipe_name = recipe


if __name__ == "__main__":
    main()
