"""Results of scaling benchmarks, kept for reports: `$FSDPCTL_HOME/scaling/`, one file each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.codec import CodecError, read_json, write_json
from fsdpctl.contract.paths import DIR_MODE
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.errors import UsageError
from fsdpctl.runs.registry import home
from fsdpctl.scaling.result import Scaling


@dataclass(frozen=True)
class StoredScaling:
    """A result, and the model that it is of."""

    model: ModelConfig
    result: Scaling


def store_scaling(model: ModelConfig, result: Scaling) -> None:
    """Keep a result. Raise OSError."""
    _folder().mkdir(DIR_MODE, parents=True, exist_ok=True)
    write_json(_folder() / f"{result.job}-{result.ended:.3f}.json", StoredScaling(model, result))


def find_scaling(model: ModelConfig, profile: str) -> Scaling | None:
    """Return the newest result of this model on this profile that compares several numbers of GPUs."""
    found = []
    for path in _folder().glob("*.json"):
        with suppress(OSError, CodecError):  # of another version
            stored = read_json(StoredScaling, path)
            if stored.model == model and stored.result.profile == profile and stored.result.compares:
                found.append(stored.result)
    return max(found, key=lambda result: result.ended, default=None)


def read_scaling(path: Path) -> Scaling:
    """Return what `bench scaling --json` has printed into a file. Raise UsageError."""
    again = "write it with: fsdpctl bench scaling JOB --gpus N,N --json > FILE"
    try:
        return read_json(Scaling, path)
    except OSError as error:
        raise UsageError(f"--scaling {path}: {error.strerror}", hint=again) from None
    except CodecError as error:
        raise UsageError(f"--scaling: {error}", hint=again) from None


def _folder() -> Path:
    return home() / "scaling"
