"""Values of other programs as those of a job. Each reader returns the value, or raises one of the two errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from fsdpctl.contract.trainer.trainer_config import Strategy
from fsdpctl.schema.problems import did_you_mean, show
from fsdpctl.schema.types import format_duration, parse_duration

Read = Callable[[Any], Any]

STRATEGIES = get_args(Strategy)
NUMBERED = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
"""The strategies by the numbers of PyTorch's ShardingStrategy and of `accelerate config`, from 1."""
_OTHER_STRATEGIES = {
    "HYBRID_SHARD_ZERO2": "_HYBRID_SHARD_ZERO2",
    "HYBRID_FULL_SHARD": "HYBRID_SHARD",
    "HSDP": "HYBRID_SHARD",
    "FSDP": "FULL_SHARD",
    "ZERO3": "FULL_SHARD",
    "ZERO2": "SHARD_GRAD_OP",
}
_PRECISIONS = {
    "fp32": "no none fp32 float32 32 32-true",
    "bf16": "bf16 bfloat16 bf16-mixed bf16-true",
    "fp16": "fp16 float16 half 16 16-mixed 16-true",
    "float8": "fp8 float8 transformer-engine",
}
_PRECISION_OF = {name: ours for ours, names in _PRECISIONS.items() for name in names.split()}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class WrongError(ValueError):
    """The value is an error in the file itself."""


class LeftOutError(ValueError):
    """The value means something that a job cannot have."""


def same(value: Any) -> Any:
    """Return the value as it is: validation of the job checks it."""
    return value


def is_false(value: Any) -> bool:
    """Return whether the value is given, and is false."""
    return str(value).lower() in _FALSE


def is_true(value: Any) -> bool:
    text = str(value).lower()
    if text not in (*_TRUE, *_FALSE):
        raise WrongError(f"must be true or false, got {show(value)}")
    return text in _TRUE


def whole(value: Any) -> int:
    """Return a whole number of at least 1, which scripts and flags have as text."""
    number = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value) else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise WrongError(f"must be a whole number of at least 1, got {show(value)}")
    return number


def number(value: Any) -> float:
    """Return a number, also one that is written as text like "3e-4"."""
    try:
        return float(value) if isinstance(value, str) else value + 0.0
    except (ValueError, TypeError):
        raise WrongError(f"must be a number, got {show(value)}") from None


def strategy(value: Any) -> str:
    """Return a sharding strategy by its name, in any case, or by its number."""
    if isinstance(value, int | str) and re.fullmatch("[0-9]", str(value)):
        if not 1 <= int(value) <= len(NUMBERED):
            numbers = ", ".join(f"{place} {name}" for place, name in enumerate(NUMBERED, start=1))
            raise WrongError(f"no sharding strategy has the number {value}; there are {numbers}")
        return NUMBERED[int(value) - 1]
    name = str(value).rpartition(".")[2].upper().replace("-", "_")
    name = _OTHER_STRATEGIES.get(name, name)
    if name not in STRATEGIES:
        raise WrongError(
            f"{show(value)} is no sharding strategy{did_you_mean(name, STRATEGIES)}; there are {', '.join(STRATEGIES)}"
        )
    return name


def precision(value: Any) -> str:
    name = str(value).rpartition(".")[2].lower()
    if name not in _PRECISION_OF:
        raise WrongError(
            f"{show(value)} is no precision{did_you_mean(name, _PRECISION_OF)}; there are fp32 (no), bf16, fp16, fp8"
        )
    return _PRECISION_OF[name]


def duration(value: Any) -> str:
    """Return a duration as a job has it; a number has no unit."""
    try:
        return format_duration(parse_duration(value))
    except ValueError as error:
        raise WrongError(str(error)) from None


def zero_stage(value: Any) -> str:
    """Return the strategy that shards what a stage of ZeRO shards, or more."""
    stages = ("DDP", "SHARD_GRAD_OP", "SHARD_GRAD_OP", "FULL_SHARD")
    if str(value) not in ("0", "1", "2", "3"):
        raise WrongError(f"the stages of ZeRO are 0, 1, 2 and 3, got {show(value)}")
    return stages[int(value)]


def recompute(value: Any) -> str:
    if value in ("full", "selective", "none"):
        return str(value)
    return "full" if is_true(value) else "none"


def one_of(known: Mapping[str, Any], left_out: str = "") -> Read:
    """Return a reader of names in any case. A name that is not known is wrong, or left out for this reason."""

    def read(value: Any) -> Any:
        name = str(value).lower()
        if name in known:
            return known[name]
        if left_out:
            raise LeftOutError(f"{show(value)}: {left_out}")
        raise WrongError(f"must be one of {', '.join(known)}, got {show(value)}{did_you_mean(name, known)}")

    return read
