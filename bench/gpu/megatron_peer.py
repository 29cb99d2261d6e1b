"""Megatron-FSDP 0.6.1 around torchtitan's llama3, with random tokens from memory: the other peer of our trainer.

    torchrun ... -m bench.gpu.megatron_peer TRAINER_JSON

Parameters, gradients and optimizer are sharded over all ranks; parameters and gradients are kept in fp32, computed in
bf16, and each block is compiled. Rank 0 prints the same `RESULT` as the other peer.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import torchtitan.models.llama3 as llama3
from megatron_fsdp import MixedPrecisionPolicy, fully_shard_model, fully_shard_optimizer
from torch import distributed, nn
from torch.utils.data import DataLoader
from torchtitan.models.llama3.model.model import TransformerBlock

from bench.gpu.torchtitan_peer import Synthetic, report, shape
from train.metrics.device_timestamp import DeviceTimestamp

MAX_NORM = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    args = parser.parse_args()
    config = json.loads(args.config.read_text())
    torch.cuda.set_device(device := torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    distributed.init_process_group("nccl", device_id=device)
    model, parameters = _sharded(config["model"], device)
    optimizer = fully_shard_optimizer(torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True))
    loss_of = torch.compile(_loss)
    batches = iter(_loader(config))
    began, ends = DeviceTimestamp(device), []
    began.wait()
    began_s = time.time()
    for _ in range(config["steps"]):
        inputs, labels = next(batches)
        logits = model(inputs["input"].to(device, non_blocking=True))
        loss_of(logits, labels.to(device, non_blocking=True)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
        ends.append(DeviceTimestamp(device))  # no step waits for it, as in the bundled trainer
    ends[-1].wait()
    report([began_s + end.seconds_since(began) for end in ends], parameters)
    distributed.destroy_process_group()


def _sharded(shape_of: dict[str, Any], device: torch.device) -> tuple[nn.Module, int]:
    with device, torch.no_grad():
        model = llama3.Transformer(shape(shape_of))
        model.init_weights()
    parameters = sum(p.numel() for p in model.parameters())
    model.to(torch.bfloat16)
    with device:
        model.freqs_cis = model._precompute_freqs_cis()  # complex numbers, which the cast has made real
    for block in model.layers.values():
        block.forward = torch.compile(block.forward, fullgraph=True)  # the hooks of Megatron-FSDP remain outside
    policy = MixedPrecisionPolicy(main_params_dtype=torch.float32, main_grads_dtype=torch.float32)
    sharded = fully_shard_model(model, fsdp_unit_modules=[TransformerBlock], mixed_precision_policy=policy)
    return sharded, parameters


def _loss(logits_btv: torch.Tensor, labels_bt: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits_btv.flatten(0, 1).float(), labels_bt.flatten())


def _loader(config: dict[str, Any]) -> DataLoader[Any]:
    tokens = Synthetic(config["model"]["vocab_size"], config["model"]["seq_len"], int(os.environ["RANK"]))
    return DataLoader(tokens, batch_size=config["batch"]["micro_batch"], num_workers=1, pin_memory=True)


if __name__ == "__main__":
    main()
