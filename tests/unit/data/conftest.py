"""Documents to prepare."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

WORDS = ["shard", "replica", "mesh", "rank", "node", "step", "loss", "token", "über", "中文", "<|endoftext|>", "42"]


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Return 400 documents of different lengths."""
    rng = random.Random(5)
    return [f"{number}: {' '.join(rng.choices(WORDS, k=rng.randint(1, 120)))}\n" for number in range(400)]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> Path:
    """Return a file with the documents as JSON lines, about 150 kB."""
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path
