"""The micro-batch that is chosen for a job that gives none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.contract.cards import CARDS
from fsdpctl.estimate.micro_batch import NEAR, fastest_micro_batch
from fsdpctl.estimate.result import Cluster, Fit, estimate
from tests.unit.estimate.jobs import trainer

NODE = Cluster(1, 8)


@pytest.mark.parametrize("card", ["a100-80", "h100-80", "h200", "b200"])
@pytest.mark.parametrize("job", ["llm90m", "llm300m", "llm7b"])
def test_no_other_that_fits_is_faster(job: str, card: str) -> None:
    config = trainer(job, "batch.micro_batch=null", "batch.sequences=256")
    best = fastest_micro_batch(config, NODE, CARDS[card])
    assert best.fit is Fit.FITS
    for size in (1, 2, 4, 8, 16, 32):
        batch = replace(config.batch, micro_batch=size)
        other = estimate(replace(config, batch=batch), NODE, CARDS[card])
        if other.fit is Fit.FITS:
            assert best.time.total <= other.time.total * (1 + NEAR)


def test_a_larger_card_gets_a_larger_one() -> None:
    config = trainer("llm7b", "batch.micro_batch=null")
    sizes = [fastest_micro_batch(config, NODE, CARDS[card]).batch.micro_batch for card in ("h100-80", "h200")]
    assert sizes == [2, 4]


def test_where_nothing_fits_it_is_one_sequence_for_the_gate_to_refuse() -> None:
    config = trainer("llm7b", "batch.micro_batch=null", "mesh.strategy=DDP")
    best = fastest_micro_batch(config, NODE, CARDS["h100-80"])
    assert (best.batch.micro_batch, best.fit) == (1, Fit.TOO_LARGE)


def test_it_divides_a_rank_s_share() -> None:
    config = trainer("llm90m", "batch.micro_batch=null", "batch.sequences=24")
    assert fastest_micro_batch(config, NODE, CARDS["h200"]).batch.micro_batch in (1, 3)
    with pytest.raises(ValueError, match="does not divide over 8 ranks"):
        fastest_micro_batch(replace(config, batch=replace(config.batch, sequences=12)), NODE, CARDS["h200"])
