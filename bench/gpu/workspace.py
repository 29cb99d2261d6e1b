"""The workspace of a row: its directory, its time limit, its data, and the configuration of its job."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray

from fsdpctl.contract.formats.dataset import Split
from train.data.tokens import TokenArray, write_dataset

SYNTHETIC_SEQUENCES = 2048
MEDIAN_LENGTH, SPREAD = 400, 1.1
"""Of documents, as a log-normal distribution with a mean of about 730 tokens, like text of the web."""


@dataclass(frozen=True)
class Workspace:
    root: Path  # of one row, empty
    shared: Path  # of all rows
    limit_s: float  # that one command may take
    tiny: bool  # a small model and few steps, without GPUs

    @property
    def env(self) -> dict[str, str]:
        """Of every command: prepared data and the state of fsdpctl stay among the bench's own files."""
        return {"FSDPCTL_HOME": str(self.shared / "home")}

    def gpus(self, wanted: int) -> int:
        """Return as many, or two at most in a tiny try. Raises LookupError where there are fewer."""
        if self.tiny:
            return min(wanted, 2)
        if (there := torch.cuda.device_count()) < wanted:
            raise LookupError(f"needs {wanted} GPUs, {there} are there")
        return wanted

    def config(self, job: str, gpus: int, steps: int, changed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the job's configuration with one micro-step a step, as in torchtitan. Keys in `changed` have dots."""
        name, steps = ("llm-tiny", min(steps, 12)) if self.tiny else (job, steps)
        config: dict[str, Any] = yaml.safe_load(Path("jobs", f"{name}.yaml").read_text())["trainer"]
        if self.tiny:
            config["batch"]["micro_batch"] = 2
        config["optim"]["warmup_steps"] = min(10, steps - 1)
        config.update(steps=steps, eval={"sequences": 2 * gpus}, log_every=10)
        config["checkpoint"]["every_steps"] = steps * 100
        for key, value in changed.items():
            if self.tiny and key.startswith(("model.", "batch.", "mesh.replicate", "mesh.shard")):
                continue
            *outer, last = key.split(".")
            place = config
            for part in outer:
                place = place.setdefault(part, {})
            place[last] = value
        micro_batch = config["batch"]["micro_batch"]
        config["batch"] = {"micro_batch": micro_batch, "sequences": micro_batch * gpus}
        if config["data"]["source"] == "synthetic":
            config["data"]["source"] = str(self._synthetic(config["model"]))
        return config

    def write(self, config: Mapping[str, Any]) -> Path:
        path = self.root / "trainer.json"
        path.write_text(json.dumps(config))
        return path

    def _synthetic(self, model: Mapping[str, Any]) -> Path:
        """Write random tokens of the whole vocabulary, as torchtitan gets them, and return their directory.

        Bytes of text would use few rows of the embedding, and often. Where documents end matters to attention only.
        """
        directory = self.shared / f"tokens-{model['vocab_size']}-{model['seq_len']}"
        if not (directory / "index.json").exists():
            directory.mkdir()
            tokens = np.random.default_rng(0).integers(model["vocab_size"], size=SYNTHETIC_SEQUENCES * model["seq_len"])
            held_out = model["seq_len"] * 64
            write_dataset(
                directory,
                [*_documents("val", tokens[:held_out]), *_documents("train", tokens[held_out:])],
                source="random tokens",
                fingerprint=directory.name,
                dtype="uint16",
                vocab_size=model["vocab_size"],
            )
        return directory


def _documents(split: Split, tokens: NDArray[np.int64]) -> list[tuple[Split, TokenArray]]:
    """Cut tokens into documents."""
    lengths = np.random.default_rng(1).lognormal(math.log(MEDIAN_LENGTH), SPREAD, size=len(tokens) // 100)
    ends = np.cumsum(lengths.astype(np.int64) + 1)
    return [(split, part) for part in np.split(tokens.astype(np.uint16), ends[ends < len(tokens)])]
