"""Opens the configured data, and checks that all ranks read the same."""

from __future__ import annotations

import os
from pathlib import Path

from fsdpctl.contract.trainer.trainer_config import BUILTIN, TrainerConfig
from train.data.builtin_data import prepare_builtin
from train.data.tokens import Dataset, open_dataset
from train.errors import ConfigError, unreadable
from train.parallel.world import World


def open_source(config: TrainerConfig, world: World) -> Dataset:
    """Open the configured data; `builtin` is prepared first, by one rank of each node while its others wait.

    Raises ConfigError where it cannot be read, or differs between ranks. Collective.
    """
    if config.data.source == BUILTIN:
        local_rank = world.rank_info.local_rank
        own = _prepare(config.data.val_fraction) if local_rank == 0 else Path()
        directory = world.gather(own)[world.rank - local_rank]
    else:
        directory = Path(config.data.source)
    dataset = open_dataset(directory, config.model.seq_len, config.model.vocab_size)
    fingerprints = world.gather(dataset.index.fingerprint)
    for rank, fingerprint in enumerate(fingerprints):
        if fingerprint != fingerprints[0]:
            raise ConfigError(
                f"ranks read different data: rank 0 has fingerprint {fingerprints[0]}, rank {rank} has {fingerprint} "
                f"(source: {config.data.source}; with builtin, the nodes' Python versions differ)"
            )
    return dataset


def _prepare(val_fraction: float) -> Path:
    try:
        return prepare_builtin(os.environ, val_fraction)
    except OSError as error:
        raise unreadable(f"the builtin corpus cannot be prepared: {error}", error) from None
