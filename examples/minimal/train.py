"""A complete script: FSDP, a stop of all ranks after the same step, an exact resume. See docs/own-scripts.md"""

import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

stop_file, checkpoints = Path(os.environ["FSDPCTL_STOP_FILE"]), Path(os.environ["FSDPCTL_CHECKPOINT_DIR"])
metrics = Path(os.environ["FSDPCTL_RUN_DIR"], "metrics.jsonl")
rank, world, last_step = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "STEPS"))
mesh = dist.init_device_mesh("cuda" if torch.cuda.is_available() else "cpu", (world,))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(fully_shard(model, mesh=mesh).parameters(), lr=1e-2)
step, totals = 0, torch.zeros(2)
if newest := max(checkpoints.glob("*/.metadata"), default=None):  # written last: the checkpoint is complete
    model_state, optimizer_state = get_state_dict(model, optimizer)
    dcp.load({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=newest.parent)
    set_state_dict(model, optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state)
    step = int(newest.parent.name)
if rank == 0 and metrics.exists():  # steps after the checkpoint are done again
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:step]))
while step < last_step and not totals[1]:
    step += 1
    batch = torch.randn(64, 32, generator=torch.Generator().manual_seed(step))[rank::world].to(mesh.device_type)
    (loss := (model(batch) - batch.square().mean(dim=1, keepdim=True)).square().mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(totals := torch.tensor([loss.item() / world, stop_file.exists()], device=mesh.device_type))
    if rank == 0:
        with metrics.open("a") as file:
            file.write(f'{{"step": {step}, "loss": {totals[0].item()}}}\n')
    if totals[1] or step % 100 == 0 or step == last_step:  # one rank that saw the stop file is enough
        model_state, optimizer_state = get_state_dict(model, optimizer)
        dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=checkpoints / f"{step:08d}")
dist.destroy_process_group()
