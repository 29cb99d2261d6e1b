"""Lines that report a step, as scripts print them, and the pattern that finds the next ones."""

from __future__ import annotations

import pytest

from fsdpctl.contract.progress_regex import compile_progress_regex
from fsdpctl.own_scripts.printed_steps import find_printed_step


@pytest.mark.parametrize(
    ("line", "following", "found"),
    [
        (
            "step 3/357 loss 5.6118 time 0.4s",
            "step 10/357 loss 4.1 time 0.4s",
            {"step": "10", "total": "357", "loss": "4.1"},
        ),
        ("Train Epoch: 1 \tLoss: 0.131864", "Train Epoch: 12 \tLoss: 0.1", {"step": "12", "loss": "0.1"}),
        ("9/150: loss=4.21", "10/150: loss=4.1", {"step": "10", "total": "150", "loss": "4.1"}),
        ("2026-11-30 07:50 step:  1  loss:  4.2  norm: 1", "step: 10  loss: 1e-3.", {"step": "10", "loss": "1e-3"}),
        ("Epoch 3 step 9 | loss 2.31", "Epoch 3 step 10 | loss 2.3", {"step": "10", "loss": "2.3"}),
        ("iter 9: loss 2.3100, time 56ms", "iter 10: loss 2.3, time 6ms", {"step": "10", "loss": "2.3"}),
        (
            " 6%|# | 9/200 [00:24<06:20, loss=2.31]",
            "7%|# | 10/200 [00:25<06, loss=2.3]",
            {"step": "10", "total": "200", "loss": "2.3"},
        ),
        ("Step [9/100], train_loss: 0.25", "Step [10/100], train_loss: 1", {"step": "10", "total": "100", "loss": "1"}),
    ],
)
def test_a_line_with_a_step_and_a_loss_gives_the_pattern_of_the_next_ones(
    line: str, following: str, found: dict[str, str]
) -> None:
    printed = find_printed_step(["starts", line])
    assert printed is not None and printed.line == line.strip()
    match = compile_progress_regex(printed.pattern).search(following)
    assert match is not None and match.groupdict() == found


@pytest.mark.parametrize(
    "line",
    ["epoch 1 begins, best loss so far inf", "Loaded 3/4 files", "step 1", "loss 2.3", "{'loss': 2.3, 'epoch': 0.33}"],
)
def test_a_line_without_both_reports_no_step(line: str) -> None:
    assert find_printed_step([line]) is None
