"""Send one notice to several targets at once, each tried a few times, within a limit for all of it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fsdpctl.contract.notify import Notice, NotifyTarget
from fsdpctl.notify.channels.command import run_command
from fsdpctl.notify.channels.error import DeliveryError
from fsdpctl.notify.channels.mail import send_mail
from fsdpctl.notify.channels.webhook import post

TIMEOUT_S = 15.0
"""Of one try."""
PAUSES_S = (1.0, 4.0, 20.0)
"""Between the tries."""
LIMIT_S = 90.0
"""Of all tries: a server that sends a byte now and then reaches no other limit."""


@dataclass(frozen=True)
class Delivery:
    """What became of a notice to one target."""

    target: NotifyTarget
    problem: str = ""  # of the last try; empty: it was taken
    tries: int = 1


def deliver(
    targets: Sequence[NotifyTarget],
    notice: Notice,
    *,
    timeout_s: float = TIMEOUT_S,
    pauses_s: Sequence[float] = PAUSES_S,
    limit_s: float = LIMIT_S,
) -> Iterator[Delivery]:
    """Yield what became of each, as soon as it is known. Threads that are still busy then end with the process."""
    done: queue.Queue[Delivery] = queue.Queue()

    def work(target: NotifyTarget) -> None:
        done.put(_deliver_one(target, lambda: send(target, notice, timeout_s), pauses_s))

    for target in targets:
        threading.Thread(target=work, args=(target,), daemon=True).start()
    left, deadline = list(targets), time.monotonic() + limit_s
    while left:
        try:
            delivery = done.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            yield from (Delivery(target, f"not taken within {limit_s:.0f} s") for target in left)
            return
        left.remove(delivery.target)
        yield delivery


def send(target: NotifyTarget, notice: Notice, timeout_s: float) -> None:
    """Send a notice to one target, once. Raise DeliveryError."""
    if target.webhook is not None:
        post(target.webhook, notice, timeout_s)
    elif target.mail is not None:
        send_mail(target.mail, notice, timeout_s)
    else:
        run_command(target.command, notice, timeout_s)


def _deliver_one(target: NotifyTarget, send: Callable[[], None], pauses_s: Sequence[float]) -> Delivery:
    for number, pause_s in enumerate([*pauses_s, None], start=1):
        try:
            send()
            return Delivery(target, tries=number)
        except DeliveryError as error:
            problem, is_final = str(error), error.is_final
        except Exception as error:  # of a library; its text may contain a secret
            problem, is_final = type(error).__name__, True
        if is_final or pause_s is None:
            break
        time.sleep(pause_s)
    return Delivery(target, problem, number)
