"""Reads the trainer's configuration: `trainer.json` as the launcher writes it, or YAML as users write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fsdpctl.contract.codec import CodecError, decode
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from train.errors import ConfigError, unreadable


def load_config(path: Path) -> TrainerConfig:
    """Read JSON, or YAML that is either the trainer's mapping or a job with a `trainer:` key. Raises TrainError."""
    try:
        text = read_bytes(path).decode()
        value = json.loads(text) if path.suffix == ".json" else _parse_yaml(text)
        if isinstance(value, dict) and "trainer" in value:
            value = value["trainer"]
        return decode(TrainerConfig, value)
    except OSError as error:
        raise unreadable(f"{path}: {error.strerror}", error) from None
    except (CodecError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None


def _parse_yaml(text: str) -> Any:
    import yaml  # a node that runs the launcher's JSON needs no PyYAML

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
