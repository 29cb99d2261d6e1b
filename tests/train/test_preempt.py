"""Stop words and signals, as one rank hears them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsdpctl.contract import StopWord
from train.preempt import SIGNALS, Stopper, read_stop_word


class Alone:
    """A world of one."""

    def maximum(self, value: int) -> int:
        return value


class AnotherSays(Alone):
    def __init__(self, word: StopWord) -> None:
        self.value = list(StopWord).index(word) + 1

    def maximum(self, value: int) -> int:
        return max(value, self.value)


@pytest.fixture(autouse=True)
def _handlers_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_asks_for_a_stop(number: int) -> None:
    stopper = Stopper(None)
    assert stopper.agree(Alone()) is None
    os.kill(os.getpid(), number)
    assert stopper.agree(Alone()) is StopWord.PREEMPT


@pytest.mark.parametrize("word", list(StopWord))
def test_every_rank_gets_the_word_of_the_one_that_heard_it(word: StopWord) -> None:
    assert Stopper(None).agree(AnotherSays(word)) is word


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("time limit in 60 s\n", StopWord.TIME),
        ("user", StopWord.USER),
        ("", StopWord.USER),
        ("now!", StopWord.USER),
        ("\x00\xff", StopWord.USER),
    ],
)
def test_stop_file(tmp_path: Path, text: str, word: StopWord) -> None:
    path = tmp_path / "stop"
    assert read_stop_word(path) is None
    path.write_bytes(text.encode("latin-1"))
    assert read_stop_word(path) is word
    assert Stopper(path).agree(Alone()) is word
