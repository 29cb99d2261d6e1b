"""What `fsdpctl submit` says before it starts something."""

from __future__ import annotations

import pytest

from fsdpctl.cli.submit import foresee_slow_steps
from fsdpctl.specs.load import load_job


@pytest.mark.parametrize(
    ("job", "tokens", "word"),
    [
        ("llm-tiny", 8192, None),
        ("llm300m", 2048, None),  # a large model, but little of it a step
        ("llm300m", 16384, "minutes"),
        ("llm7b", 262_144, "hours"),
    ],
)
def test_slow_steps_are_foreseen_by_their_work_not_by_the_size_of_the_model(
    job: str, tokens: int, word: str | None
) -> None:
    trainer = load_job(job, [f"trainer.batch={{tokens: {tokens}, micro_batch: 1}}"]).trainer
    assert trainer is not None
    warning = foresee_slow_steps(trainer)
    if word is None:
        assert warning is None
    else:
        assert warning is not None
        assert f"{tokens:,} tokens a step without a GPU: expect {word} for each" in warning
