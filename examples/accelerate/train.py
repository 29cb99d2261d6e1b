"""Train a small network with Accelerate: FSDP where the environment or `accelerate launch` asks for it, else DDP."""

import os

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed

from fsdpctl.integrations.accelerate import load_state, save_state, stop_requested
from fsdpctl.report import step as report_step


class Sums(torch.utils.data.Dataset):
    """Pairs of a random vector and the mean of its squares; each is a function of its index."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        x = torch.randn(32, generator=torch.Generator().manual_seed(index))
        return x, x.square().mean(dim=0, keepdim=True)


def main():
    # With this sampler the order of the data is a function of the epoch, and so the same after a resume.
    accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
    set_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
    loader = torch.utils.data.DataLoader(Sums(), batch_size=32, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)  # together: FSDP2 replaces the parameters

    step, last_step = load_state(accelerator), int(os.environ.get("STEPS", "200"))
    stop = False
    while step < last_step and not stop:
        epoch, batches_done = divmod(step, len(loader))
        loader.set_epoch(epoch)
        for x, y in accelerator.skip_first_batches(loader, batches_done):
            step += 1
            loss = (model(x) - y).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            report_step(step, loss=accelerator.reduce(loss.detach(), "mean").item())
            stop = stop_requested()
            if stop or step % 50 == 0 or step == last_step:
                save_state(accelerator, step)
            if stop or step == last_step:
                break
    accelerator.end_training()


if __name__ == "__main__":
    main()
