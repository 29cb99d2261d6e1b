"""A short campaign: what an outside observer sees of a run amid faults is what the run's ledger has."""

from __future__ import annotations

import pytest

from bench.campaign.__main__ import main
from tests.services import require

pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)
def test_the_ledger_agrees_with_an_outside_observer() -> None:
    require("torch")
    kinds = "rank KILL,agent KILL,supervisor KILL"
    result = main(["--minutes", "0.75", "--every", "15", "--ranks", "1", "--kinds", kinds])
    assert result.faults and None not in [fault.back_s for fault in result.faults]
    assert result.passed_s - result.commands_s < sum(result.ledger.seconds.values()) < result.passed_s
    assert result.ledger.effective == pytest.approx(result.effective, abs=0.1), "but for the first step of each attempt"
    for fault in result.faults:
        assert fault.back_s is not None and fault.ledger_s is not None
        assert fault.ledger_s <= fault.back_s
