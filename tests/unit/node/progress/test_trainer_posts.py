"""What the posts of transformers' KubeflowCallback mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fsdpctl.node.progress.step_report import StepReport
from fsdpctl.node.progress.trainer_posts import TrainerPosts


def post(percent: int | None = None, **metrics: Any) -> bytes:
    status: dict[str, Any] = {"metrics": [{"name": name, "value": str(value)} for name, value in metrics.items()]}
    return json.dumps({"trainerStatus": {**status, "progressPercentage": percent}}).encode()


def read(posts: TrainerPosts, body: bytes, *, is_stopping: bool = False) -> StepReport | None:
    return posts.read(body, 5.0, is_stopping=is_stopping)


def test_a_post_has_the_step_the_total_and_the_values_of_the_newest_log() -> None:
    posts = TrainerPosts()
    assert read(posts, post(0, total_steps=128)) is None
    found = read(posts, post(35, loss=4.5, epoch=1.25, current_step=45, total_steps=128, current_epoch=1.41))
    assert found == StepReport(45, 5.0, {"loss": 4.5, "epoch": 1.41}, 128)


def test_the_last_post_is_the_last_step_where_the_epoch_agrees() -> None:
    posts = TrainerPosts()
    read(posts, post(0, total_steps=128))
    read(posts, post(93, current_step=119, total_steps=128, current_epoch=3.72))
    found = read(posts, post(100, loss=4.1, epoch=4.0, train_loss=4.2))
    assert found == StepReport(128, 5.0, {"loss": 4.1, "epoch": 4.0, "train_loss": 4.2}, 128)


def test_an_end_before_the_last_step_is_not_taken_for_it() -> None:
    """EarlyStoppingCallback, or a callback that obeys the stop file."""
    posts = TrainerPosts()
    read(posts, post(0, total_steps=128))
    read(posts, post(70, current_step=90, total_steps=128, current_epoch=2.81))
    assert read(posts, post(100, loss=4.1, epoch=3.0)) is None
    assert read(posts, post(100, loss=4.1, epoch=4.0), is_stopping=True) is None


def test_training_that_is_shorter_than_the_time_between_two_posts_has_its_last_step() -> None:
    posts = TrainerPosts()
    read(posts, post(0, total_steps=12))
    found = read(posts, post(100, loss=2.0, epoch=1.0))
    assert found is not None and found.step == 12


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"trainerStatus": null}',
        b'{"trainerStatus": {"metrics": 5}}',
        b'{"trainerStatus": {"metrics": [5]}}',
        b'{"trainerStatus": {"metrics": [{"name": "current_step", "value": "nan"}]}}',
        b'{"trainerStatus": {"metrics": [{"name": "current_step", "value": "-3"}]}}',
        b"[" * 100_000,
    ],
    ids=lambda body: body[:60].decode(errors="replace"),
)
def test_anything_else_is_no_step(body: bytes) -> None:
    assert read(TrainerPosts(), body) is None
