"""Train a small network with Lightning: FSDP on GPUs, DDP on CPUs.

Nothing in it is for fsdpctl: a stop saves after the same step on all ranks, and a resume continues there. The data
continue within an epoch because the loader has a state; Lightning itself would begin the epoch again.
"""

import os

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint


class Batches:
    """Batches of random vectors and the mean of their squares: a function of their position."""

    def __init__(self, rank, world_size, batches=64):
        self.rank, self.world_size, self.batches = rank, world_size, batches
        self.position = 0

    def __len__(self):
        return self.batches

    def __iter__(self):
        while True:
            generator = torch.Generator().manual_seed(self.position * self.world_size + self.rank)
            self.position += 1
            x = torch.randn(32, 32, generator=generator)
            yield x, x.square().mean(dim=1, keepdim=True)
            if self.position % self.batches == 0:
                return

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class Network(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))

    def training_step(self, batch):
        x, y = batch
        loss = (self.layers(x) - y).square().mean()
        self.log("loss", loss)
        return loss

    def train_dataloader(self):
        return Batches(self.global_rank, self.trainer.world_size)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main():
    pl.seed_everything(0)
    has_gpus = torch.cuda.is_available()
    trainer = pl.Trainer(
        accelerator="gpu" if has_gpus else "cpu",
        strategy="fsdp" if has_gpus else "ddp",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),  # torchrun's name for the number of nodes
        max_steps=int(os.environ.get("STEPS", "200")),
        callbacks=[ModelCheckpoint("out", every_n_train_steps=50, save_last=True)],
        log_every_n_steps=1,
        enable_progress_bar=False,
        logger=False,
    )
    trainer.fit(Network())


if __name__ == "__main__":
    main()
