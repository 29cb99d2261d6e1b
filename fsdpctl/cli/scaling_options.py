"""The options of `fsdpctl bench scaling`: what is wrong with them is a UsageError before anything runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from fsdpctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdpctl.contract.trainer.trainer_config import Strategy
    from fsdpctl.scaling.prepare import PlannedPoint


def check_plot(plot: Path | None) -> None:
    """Raise UsageError now for a chart that could not be written at the end."""
    if plot is None:
        return
    if plot.suffix != ".svg":
        raise UsageError(f"--plot writes SVG, got {plot}", hint="rsvg-convert -o x.png x.svg makes a PNG of it")
    if not plot.parent.is_dir():
        raise UsageError(f"--plot {plot}: there is no directory {plot.parent}")


def parse_gpus(text: str) -> list[int]:
    """Return the numbers of `--gpus`."""
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch("[1-9][0-9]{0,3}", word) for word in words):
        raise UsageError(f"--gpus takes numbers from 1 to 9999, joined by commas, like 1,2,4,8; got {text!r:.100}")
    return [int(word) for word in words]


def parse_strategies(text: str | None) -> list[Strategy]:
    """Return the strategies of `--strategy`; none if it is not given."""
    from fsdpctl.contract.trainer.trainer_config import Strategy

    known = {name.upper(): name for name in get_args(Strategy)}
    words = [word.strip() for word in text.split(",")] if text is not None else []
    if wrong := [word for word in words if word.upper() not in known]:
        raise UsageError(f"--strategy: {wrong[0]!r:.60} is none of {', '.join(known.values())}")
    return [known[word.upper()] for word in words]


def parse_limit(text: str) -> int:
    """Return the seconds of `--time-limit`."""
    from fsdpctl.schema.types import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--time-limit: {error}") from None


def refuse_slow(planned: Sequence[PlannedPoint]) -> None:
    """Raise UsageError for steps that take minutes, as on CPUs."""
    from fsdpctl.cli.before_submit import predict_slow_steps

    for one in planned:
        if one.request.plan.device == "cpu" and (warning := predict_slow_steps(one.trainer)) is not None:
            raise UsageError(f"{one.point.label}: {warning}", hint="--profile chooses a cluster with GPUs")
