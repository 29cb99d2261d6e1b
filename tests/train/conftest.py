"""Shared by the trainer's tests: a tiny configuration and a small prepared data set."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from train.data.tokens import write_dataset


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return prepared tokens of a language with three words: twelve steps are two epochs, and some of a third."""
    rng = np.random.default_rng(7)
    words = [np.frombuffer(word, dtype=np.uint8) for word in (b"sharded ", b"replica ", b"whole\n")]
    text = np.concatenate([words[i] for i in rng.integers(0, 3, size=6_000)])
    directory = tmp_path_factory.mktemp("data")
    documents = [("train", text[:1_400]), ("val", text[36_000:40_000])]
    write_dataset(
        directory, documents, source="three words", fingerprint="three-words-1", dtype="uint16", vocab_size=128
    )
    return directory


@pytest.fixture
def config(data_dir: Path) -> dict[str, Any]:
    """Return a configuration of twelve steps of a small model with dropout; every step differs from every other."""
    return tiny_config(data_dir)


@pytest.fixture(scope="session")
def straight_run(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    """Run two ranks without any disturbance. For reading only; `straight` is a copy."""
    from tests.train.ranks import train

    run = tmp_path_factory.mktemp("straight")
    train(run, tiny_config(data_dir), procs_per_node=2)
    return run


@pytest.fixture
def straight(straight_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(straight_run, tmp_path / "straight"))


def tiny_config(data_dir: Path) -> dict[str, Any]:
    return {
        "steps": 12,
        "log_every": 4,
        "model": {
            "vocab_size": 128,
            "d_model": 32,
            "layers": 2,
            "heads": 2,
            "kv_heads": 1,
            "head_dim": 16,
            "ffn": 64,
            "seq_len": 32,
            "dropout": 0.1,
        },
        "data": {"source": str(data_dir)},
        "batch": {"sequences": 8, "micro_batch": 2},
        "optim": {"lr": 3e-3, "warmup_steps": 3},
        "checkpoint": {"every_steps": 4, "keep": 2},
        "eval": {"sequences": 9},
    }
