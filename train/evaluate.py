"""Loss on held-out text."""

from __future__ import annotations

import numpy as np
import torch

from train.context import RankContext
from train.data.batch import read_batch, split_targets
from train.data.sample_order import rank_share
from train.data.tokens import Tokens
from train.model.language_model import IGNORED, LanguageModel
from train.parallel.parallelize import release_gathered


@torch.no_grad()
def held_out_loss(context: RankContext, model: LanguageModel, tokens: Tokens) -> float | None:
    """Return the mean loss, in nats a token, over sequences spread evenly over the split: the same ones in every world.

    None where all ranks agreed to stop, which they do before each micro-batch. Collective.
    """
    config, world, micro_batch = context.config, context.world, context.layout.micro_batch
    num_sequences = min(config.eval.sequences, tokens.num_sequences)
    ids = np.arange(num_sequences) * tokens.num_sequences // num_sequences
    missing = -num_sequences % (world.size * micro_batch)
    ids = np.pad(ids, (0, missing), constant_values=-1)  # sharded ranks must all make the same number of calls
    totals = torch.zeros(2, dtype=torch.float64, device=world.device)
    model.eval()
    for share in rank_share(ids, world.rank, world.size, micro_batch):
        if is_cut_short := context.stopper.agree(world) is not None:
            break
        batch = read_batch(tokens, share.clip(min=0), config.data)
        batch.tokens_BS[torch.from_numpy(share < 0)] = ~0
        batch = batch.to(world.device)
        inputs, targets = split_targets(batch, config.data.ignore_token)
        loss = model(inputs, targets, batch.positions_BT)
        totals += torch.stack((loss.double(), (targets != IGNORED).sum().double()))
        context.progress.sign()
    model.train()
    release_gathered(model)
    if is_cut_short:
        return None
    loss, count = world.all_reduce_sum(totals).tolist()
    return float(loss / max(count, 1))
