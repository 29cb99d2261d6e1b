"""Stop reasons and signals, as one rank gets them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsdpctl.contract import StopReason
from fsdpctl.contract.formats.manifest import save_fits
from train.preempt import SIGNALS, Stop, Stopper, read_stop_reason


class Alone:
    """A world of one."""

    def maximum(self, value: int) -> int:
        return value


class AnotherRankHas(Alone):
    def __init__(self, reason: StopReason) -> None:
        self.value = list(StopReason).index(reason) + 1

    def maximum(self, value: int) -> int:
        return max(value, self.value)


@pytest.fixture(autouse=True)
def _handlers_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def reason_of(stop: Stop | None) -> StopReason:
    assert stop is not None
    return stop.reason


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_asks_for_a_stop(number: int) -> None:
    stopper = Stopper(None)
    assert stopper.agree(Alone()) is None
    os.kill(os.getpid(), number)
    assert reason_of(stopper.agree(Alone())) is StopReason.PREEMPT


def test_a_signal_ends_a_rank_whose_attempt_is_aborted(tmp_path: Path) -> None:
    script = "import os, pathlib, sys; from train.preempt import Stopper; abort = pathlib.Path(sys.argv[1])"
    script += "; Stopper(None, abort_file=abort); os.kill(os.getpid(), 15); print('alive', flush=True)"
    script += "; abort.touch(); os.kill(os.getpid(), 15); print('still alive')"
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "abort"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "alive\n"), done.stderr


@pytest.mark.parametrize("reason", list(StopReason))
def test_every_rank_gets_the_reason_that_one_of_them_got(reason: StopReason) -> None:
    assert reason_of(Stopper(None).agree(AnotherRankHas(reason))) is reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("time limit in 60 s\n", StopReason.TIME),
        ("user", StopReason.USER),
        ("", StopReason.USER),
        ("now!", StopReason.USER),
        ("\x00\xff", StopReason.USER),
        ("preempt Slurm takes the nodes back\n\nuser fsdpctl stop\n", StopReason.PREEMPT),  # its grace is shorter
    ],
)
def test_stop_file(tmp_path: Path, text: str, reason: StopReason) -> None:
    path = tmp_path / "stop"
    assert read_stop_reason(path) is None
    path.write_bytes(text.encode("latin-1"))
    assert read_stop_reason(path) is reason
    assert reason_of(Stopper(path).agree(Alone())) is reason


def test_a_file_server_that_does_not_answer_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while there is no stop file, nor between the look into it and the look at its age."""
    (tmp_path / "file").touch()
    path = tmp_path / "file/stop"  # no such directory: an error of another kind
    stopper = Stopper(path, grace_s=100.0)
    assert stopper.agree(Alone()) is None
    monkeypatch.setattr("train.preempt.read_stop_reason", lambda _: StopReason.USER)
    stopper.last_look -= 30.0
    stop = stopper.agree(Alone())
    assert stop is not None and 60 < stop.left_s() <= 70, "it may have been there since the last look"


def test_the_grace_runs_from_the_signal_on() -> None:
    stopper = Stopper(None, grace_s=100.0)
    os.kill(os.getpid(), signal.SIGTERM)
    assert stopper.requested is not None
    stopper.requested -= 30.0
    os.kill(os.getpid(), signal.SIGTERM)  # a second one gives no more time
    stop = stopper.agree(Alone())
    assert stop is not None and 60 < stop.left_s() <= 70
    assert stop.has_time_for(10.0) and not stop.has_time_for(60.0)


def test_the_grace_runs_from_the_stop_file_on_but_not_from_before_the_last_look(tmp_path: Path) -> None:
    path = tmp_path / "stop"
    path.write_text("preempt")
    os.utime(path, (0, 0))  # another host's clock
    stopper = Stopper(path, grace_s=1000.0)
    stopper.last_look -= 400.0
    stop = stopper.agree(Alone())
    assert stop is not None and 500 < stop.left_s() <= 600
    again = stopper.agree(Alone())
    assert again is not None and again.left_s() < 601, "it is not given anew"
    later = time.time() - 50
    os.utime(path, (later, later))
    stopper = Stopper(path, grace_s=1000.0)
    stopper.last_look -= 400.0
    stop = stopper.agree(Alone())
    assert stop is not None and 850 < stop.left_s() <= 950


def test_a_preemption_has_a_grace_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "stop"
    for reason, grace_s in (("user", 100.0), ("time", 100.0), ("preempt", 6.0)):
        path.write_text(reason)
        stop = Stopper(path, grace_s=100.0, preempt_grace_s=6.0).agree(Alone())
        assert stop is not None and stop.grace_s == grace_s


def test_without_a_launcher_there_is_time() -> None:
    stopper = Stopper(None)
    os.kill(os.getpid(), signal.SIGTERM)
    stop = stopper.agree(Alone())
    assert stop is not None and stop.has_time_for(1e9)


@pytest.mark.parametrize(
    ("save_s", "left_s", "fits"),
    [
        (0.0, 0.0, True),
        (0.1, 5.0, True),
        (0.1, 1.0, False),
        (50.0, 61.0, True),
        (50.0, 60.0, False),
        (90.0, 60.0, False),
    ],
)
def test_a_save_needs_what_it_took_and_a_little_more(save_s: float, left_s: float, fits: bool) -> None:
    assert save_fits(save_s, left_s) is fits
