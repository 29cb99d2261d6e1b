"""Refuse float8 on GPUs that do not multiply it, before anything starts."""

from __future__ import annotations

from fsdpctl.contract.cards import Card
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.errors import UsageError


def check_float8(trainer: TrainerConfig, card: Card) -> None:
    """Raise UsageError for a trainer that asks a card for float8 that it does not have."""
    if trainer.precision == "float8" and not card.has_float8:
        raise UsageError(
            f"precision float8: a {card.name} multiplies no float8, which begins with L4, L40S, RTX 4090 and H100",
            hint="--set trainer.precision=bf16",
        )
