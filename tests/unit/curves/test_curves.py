"""Curves are read with their marks, and thinned without a loss of minima and maxima."""

from __future__ import annotations

import json
import random

from fsdpctl.curves.read import read_curves
from fsdpctl.curves.series import Curve, Mark, choose_keys
from fsdpctl.curves.thin import BUCKETS, thin
from fsdpctl.runs.evidence import RunFacts
from tests.unit.ended_runs import make_run


def test_a_thinned_curve_keeps_its_ends_and_every_spike() -> None:
    numbers = random.Random(1)
    values = [numbers.random() for _ in range(100_000)]
    values[33_333], values[77_777] = 50.0, -50.0
    found = thin(Curve("loss", tuple(range(100_000)), tuple(values)))
    assert len(found.steps) <= 4 * BUCKETS
    assert list(found.steps) == sorted(set(found.steps))
    assert (found.steps[0], found.steps[-1]) == (0, 99_999)
    assert {(33_333, 50.0), (77_777, -50.0)} <= set(zip(found.steps, found.values, strict=True))
    assert all(values[step] == value for step, value in zip(found.steps, found.values, strict=True))


def test_a_short_curve_stays_as_it_is() -> None:
    curve = Curve("loss", (1, 2, 3), (3.0, 2.0, 1.0))
    assert thin(curve) is curve


def test_restarts_and_saves_are_marked_where_they_were() -> None:
    found = read_curves(RunFacts(make_run("mine-aaaa", steps=30, starts=(1, 11))))
    assert [curve.key for curve in found.curves] == ["loss", "tokens_per_s", "grad_norm"]
    assert found.marks == (Mark("restart", 11, 2), Mark("save", 10, 1), Mark("save", 20, 2), Mark("save", 30, 2))


def test_what_is_no_finite_number_is_no_point() -> None:
    run = make_run("mine-aaaa", steps=3)
    lines = [
        '{"step": 4, "loss": NaN}',
        '{"step": 5, "loss": "x"}',
        '{"step": 6, "loss": true}',
        '{"loss": 1.0}',
        '{"step": 8, "loss": 1' + "0" * 400 + "}",
        '{"step": 9, "loss": 1e200}',
        "{",
        "[]",
    ]
    with open(run.metrics, "a", encoding="utf-8") as file:
        file.write("\n".join([*lines, json.dumps({"step": 7, "loss": 1})]) + "\n")
    loss = read_curves(RunFacts(run), ["loss"]).curve("loss")
    assert loss is not None
    assert loss.steps == (1, 2, 3, 7)


def test_numbers_of_a_script_are_shown_by_their_names() -> None:
    assert choose_keys(["lr", "loss", "gpu_memory_gib", "power_w"]) == ["loss", "gpu_memory_gib", "power_w"]
    assert choose_keys(["accuracy", "lr"]) == ["accuracy", "lr"]


def test_one_evaluation_is_no_curve_but_can_be_asked_for() -> None:
    run = make_run("mine-aaaa", steps=3)
    run.evaluations.write_text('{"step": 3, "held_out_loss": 2.5}\n')
    assert read_curves(RunFacts(run)).curve("held_out_loss") is None
    assert read_curves(RunFacts(run), ["held_out_loss"]).curve("held_out_loss") == Curve("held_out_loss", (3,), (2.5,))
