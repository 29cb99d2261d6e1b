"""Train a Llama under FSDP2: `train_fsdp.py CONFIG [--resume_from CHECKPOINT]`, alone, under torchrun or in a run."""

from __future__ import annotations

import argparse
import os
import sysconfig
from pathlib import Path

import checkpoint
import torch
import torch.distributed as dist
from configuration import Config, load_config
from model import Llama
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from fsdpctl.report import step as report_step

ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--resume_from", type=Path, help="fsdp_cpt4000.pth, full or sharded")
    arguments = parser.parse_args()
    config, device = load_config(arguments.config), init_distributed()
    rank, world = dist.get_rank(), dist.get_world_size()
    if config.train_batch % world:
        raise SystemExit(f"train_batch {config.train_batch} must be a multiple of the number of ranks, {world}")
    torch.manual_seed(config.seed)
    model = shard(Llama(config).to(device), config, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, betas=(0.9, 0.95), weight_decay=config.weight_decay)
    in_run = os.environ.get("FSDPCTL_CHECKPOINT_DIR")
    checkpoints = Path(in_run or config.checkpoint_dir)
    start = (in_run and checkpoint.newest(checkpoints)) or arguments.resume_from
    step = checkpoint.load(start, model, optimizer) if start else 0
    log(f"{sum(p.numel() for p in model.parameters()):,} parameters, {world} ranks, from {start or 'the beginning'}")

    tokens, stop = load_tokens(config), False
    while step < config.steps and not stop:
        step += 1
        loss = torch.zeros(2, device=device)
        micro_batches = batch(tokens, config, step, rank, world).split(config.micro_batch)
        for number, sequences in enumerate(micro_batches, start=1):
            inputs, targets = sequences[:, :-1].to(device), sequences[:, 1:].to(device)
            model.set_requires_gradient_sync(number == len(micro_batches))
            mean = model(inputs, targets) * (len(sequences) * world / config.train_batch)
            mean.backward()
            loss[0] += mean.detach() / world
        nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        for group in optimizer.param_groups:
            group["lr"] = config.lr * min(1.0, step / max(1, config.warmup_steps))
        optimizer.step()
        optimizer.zero_grad()
        loss[1] = is_asked_to_stop()
        dist.all_reduce(loss)  # one rank that was asked to stop is enough
        stop = bool(loss[1])
        report_step(step, total=config.steps, loss=loss[0].item())
        log(f"step {step}/{config.steps}  loss {loss[0].item():.6f}")
        if stop or step % config.save_every == 0 or step == config.steps:
            checkpoint.save(checkpoints, step, model, optimizer, full=config.checkpoint_type == "full")
    dist.destroy_process_group()


def init_distributed() -> torch.device:
    """Join the process group, of this process alone where no torchrun started it; return the device."""
    if "RANK" not in os.environ:
        os.environ |= {**ALONE, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    return device


def shard(model: Llama, config: Config, device: torch.device) -> Llama:
    """Make a unit of each layer, and one of embedding, last norm and head; compute in bf16 on GPUs."""
    if config.compile:
        for layer in model.model.layers:
            layer.compile()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
    mesh, reshard = build_mesh(config, device), config.sharding_strategy != "SHARD_GRAD_OP"
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def build_mesh(config: Config, device: torch.device) -> DeviceMesh:
    """Shard over all ranks; HYBRID_SHARD shards within a node and replicates across nodes."""
    world, local_world = dist.get_world_size(), int(os.environ["LOCAL_WORLD_SIZE"])
    if config.sharding_strategy != "HYBRID_SHARD" or local_world in (1, world):
        return init_device_mesh(device.type, (world,))
    return init_device_mesh(device.type, (world // local_world, local_world), mesh_dim_names=("replicate", "shard"))


def load_tokens(config: Config) -> Tensor:
    """Map the file of token ids; without one, take the sources of Python's standard library, as bytes."""
    if config.data:
        return torch.from_file(config.data, size=Path(config.data).stat().st_size // 2, dtype=torch.uint16)
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return torch.frombuffer(bytearray(b"".join(path.read_bytes() for path in sources)), dtype=torch.uint8)


def batch(tokens: Tensor, config: Config, step: int, rank: int, world: int) -> Tensor:
    """Return this rank's sequences of a step: a function of the step, so that a resumed run draws the same ones."""
    generator = torch.Generator().manual_seed(config.seed + step)
    begins = torch.randint(len(tokens) - config.seq_len, (config.train_batch,), generator=generator)
    return torch.stack([tokens[begin : begin + config.seq_len + 1].long() for begin in begins[rank::world].tolist()])


def is_asked_to_stop() -> bool:
    stop_file = os.environ.get("FSDPCTL_STOP_FILE")
    return stop_file is not None and Path(stop_file).exists()


def log(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
