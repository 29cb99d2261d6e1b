"""Float8 on a GPU that does not have it is refused where the kind of GPU is known."""

from __future__ import annotations

import pytest

from fsdpctl.contract.cards import CARDS
from fsdpctl.errors import UsageError
from fsdpctl.specs.load import load_job
from fsdpctl.verbs.float8 import check_float8


@pytest.mark.parametrize("card", ["v100-32", "a10", "a100-80", "l4", "h100-80", "mi300x"])
@pytest.mark.parametrize("precision", ["bf16", "float8"])
def test_only_cards_with_float8_take_it(card: str, precision: str) -> None:
    trainer = load_job("llm7b", [f"trainer.precision={precision}"]).trainer
    assert trainer is not None
    if precision == "bf16" or card in ("l4", "h100-80", "mi300x"):
        check_float8(trainer, CARDS[card])
    else:
        with pytest.raises(UsageError, match=f"a {card} multiplies no float8"):
            check_float8(trainer, CARDS[card])
