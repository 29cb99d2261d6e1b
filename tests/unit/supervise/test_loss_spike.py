"""What is a spike in curves as runs have them, and what is not."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from fsdpctl.supervise.loss_spike import CONFIRM, MIN_WINDOW, RECOVER, WINDOW, SpikeDetector, highest_usual

STEPS = 3000


def language_model(rng: random.Random, step: int) -> float:
    """From ln(32000) down to about 2.6, by a power law, with the noise of a batch."""
    return 1.9 + 8.5 * (1 + step / 30) ** -0.55 + rng.gauss(0, 0.04)


def warm_up(rng: random.Random, step: int) -> float:
    """A learning rate that rises too fast: the loss rises for the first steps, then falls."""
    bump = 4 * math.exp(-(((step - 20) / 12) ** 2))
    return language_model(rng, step) + bump


def small_batches(rng: random.Random, step: int) -> float:
    """One sequence a step: heavy tails, up to several times the usual loss."""
    return 2.5 * rng.lognormvariate(0, 0.35) + (6 if rng.random() < 0.01 else 0)


def two_domains(rng: random.Random, step: int) -> float:
    """Code and prose in turn, at random."""
    return (1.1 if rng.random() < 0.5 else 2.9) + rng.gauss(0, 0.1)


def converged(rng: random.Random, step: int) -> float:
    """Almost no noise: one part in ten thousand."""
    return 0.25 * (1 + rng.gauss(0, 1e-4)) + 1e-6 * step


def slow_rise(rng: random.Random, step: int) -> float:
    """It overfits, or reinforcement learning explores: half a unit in a thousand steps."""
    return 2.0 + step / 2000 + rng.gauss(0, 0.05)


def negative(rng: random.Random, step: int) -> float:
    """A log-likelihood ratio, around zero."""
    return -step / 1000 + rng.gauss(0, 0.3)


QUIET: list[Callable[[random.Random, int], float]] = [
    language_model,
    warm_up,
    small_batches,
    two_domains,
    converged,
    slow_rise,
    negative,
]


@pytest.mark.parametrize("curve", QUIET)
@pytest.mark.parametrize("seed", [1, 2])
def test_noise_outliers_and_trends_are_no_spikes(curve: Callable[[random.Random, int], float], seed: int) -> None:
    rng, detector = random.Random(seed), SpikeDetector()
    assert [step for step in range(STEPS) if detector.take(step, curve(rng, step)) is not None] == []


def spikes(step: int, height: float = 5.0, at: tuple[int, ...] = (1000, 2000)) -> float:
    """A rise within ten steps, which is forgotten within a hundred."""
    return sum(height * min(1, (step - begin) / 10) * math.exp(-(step - begin) / 40) for begin in at if step >= begin)


@pytest.mark.parametrize("curve", [language_model, converged, negative])
def test_each_spike_is_found_once_within_a_few_steps(curve: Callable[[random.Random, int], float]) -> None:
    rng, detector = random.Random(1), SpikeDetector()
    found = {
        step: spike
        for step in range(STEPS)
        if (spike := detector.take(step, curve(rng, step) + spikes(step))) is not None
    }
    assert len(found) == 2, found
    for (step, spike), begin in zip(found.items(), (1000, 2000), strict=True):
        assert begin < step <= begin + 15 and spike.step is not None and begin < spike.step <= step
        assert spike.loss > spike.usual


def test_a_run_that_diverges_is_found_once() -> None:
    rng, detector = random.Random(1), SpikeDetector()
    losses = [language_model(rng, step) + max(0, step - 500) * 0.2 for step in range(560)]
    assert len([1 for step, loss in enumerate(losses) if detector.take(step, loss) is not None]) == 1


def test_another_level_is_found_once_and_is_the_usual_one_then() -> None:
    detector = SpikeDetector()
    losses = [*[1.0] * WINDOW, *[2.0] * (2 * WINDOW), *[4.0] * CONFIRM]
    found = [step for step, loss in enumerate(losses) if detector.take(step, loss) is not None]
    assert found == [WINDOW + CONFIRM - 1, 3 * WINDOW + CONFIRM - 1]


def test_a_restart_that_repeats_steps_is_no_spike() -> None:
    """The loss falls steeply: what the older steps had is far above what the newest ones have."""
    rng, detector = random.Random(1), SpikeDetector()
    order = [*range(300), *range(150, 400), *range(40, 200), *range(1, 300)]
    assert [step for step in order if detector.take(step, 10 * math.exp(-step / 100) + rng.gauss(0, 0.01))] == []


def test_a_restart_after_which_the_loss_is_high_is_a_spike() -> None:
    """As where the state of the optimizer was lost."""
    rng, detector = random.Random(1), SpikeDetector()
    for step in range(1000):
        assert detector.take(step, language_model(rng, step)) is None
    found = [step for step in range(950, 1000) if detector.take(step, language_model(rng, step) + 2) is not None]
    assert found == [950 + CONFIRM - 1]


def test_the_calm_after_a_spike_decides_whether_another_is_a_new_one() -> None:
    high = [9.0] * CONFIRM
    for calm, count in ((RECOVER - 1, 1), (RECOVER, 2)):
        detector = SpikeDetector()
        losses = [*[1.0] * WINDOW, *high, *[1.0] * calm, *high]
        assert len([1 for step, loss in enumerate(losses) if detector.take(step, loss) is not None]) == count


def test_few_losses_give_no_judgement_and_steps_may_be_unknown() -> None:
    assert highest_usual([1.0] * (MIN_WINDOW - 1)) is None
    assert highest_usual([3.0] * MIN_WINDOW) == pytest.approx(3.36)
    detector = SpikeDetector()
    found = [detector.take(None, loss) for loss in [*[1.0] * MIN_WINDOW, *[2.0] * CONFIRM]]
    assert found[-1] is not None and found[-1].step is None and not any(found[:-1])
