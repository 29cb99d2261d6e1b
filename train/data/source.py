"""Opens the configured data, and checks that all ranks read the same."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from fsdpctl.contract.data_url import is_url
from fsdpctl.contract.trainer.trainer_config import BUILTIN, TrainerConfig
from fsdpctl.remote_data.fetch import fetch_dataset
from fsdpctl.remote_data.location import RemoteDataError
from train.data.builtin_data import prepare_builtin
from train.data.tokens import Dataset, open_dataset
from train.errors import ConfigError, TrainError, unreadable
from train.parallel.world import World

log = logging.getLogger(__name__)


def open_source(config: TrainerConfig, world: World, sign: Callable[[], None]) -> Dataset:
    """Open the configured data; `builtin` is prepared first, by one rank of each node while its others wait, and data
    behind a URL is fetched into the node's cache by all of them. `sign` records that there is progress.

    Raises ConfigError where it cannot be read, or differs between ranks. Collective.
    """
    if config.data.source == BUILTIN:
        local_rank = world.rank_info.local_rank
        own = _prepare(config.data.val_fraction) if local_rank == 0 else Path()
        directory = world.gather(own)[world.rank - local_rank]
    elif is_url(config.data.source):
        directory = _fetch(config.data.source, sign)
    else:
        directory = Path(config.data.source)
    dataset = open_dataset(directory, config.model.seq_len, config.model.vocab_size)
    if config.data.attention == "document" and not dataset.index.has_documents:
        raise ConfigError(f"data.attention document: {config.data.source} has one document, and so no limits of any")
    fingerprints = world.gather(dataset.index.fingerprint)
    for rank, fingerprint in enumerate(fingerprints):
        if fingerprint != fingerprints[0]:
            raise ConfigError(
                f"ranks read different data: rank 0 has fingerprint {fingerprints[0]}, rank {rank} has {fingerprint} "
                f"(source: {config.data.source}; with builtin, the nodes' Python versions differ)"
            )
    return dataset


def _fetch(url: str, sign: Callable[[], None]) -> Path:
    began = time.monotonic()
    try:
        directory = fetch_dataset(url, os.environ, lambda _: sign())
    except RemoteDataError as error:
        raise (ConfigError if error.is_lasting else TrainError)(f"data.source: {error}") from None
    log.info("data of %s is in %s after %.1f s", url, directory, time.monotonic() - began)
    return directory


def _prepare(val_fraction: float) -> Path:
    try:
        return prepare_builtin(os.environ, val_fraction)
    except OSError as error:
        raise unreadable(f"the builtin corpus cannot be prepared: {error}", error) from None
