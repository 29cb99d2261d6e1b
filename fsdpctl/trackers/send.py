"""Send the rows of a run to its tracker until the attempt has ended; an error is printed once, and tried again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fsdpctl.contract.codec import find_json, write_json
from fsdpctl.trackers.feed import Feed, Sent
from fsdpctl.trackers.tracker import EndState, Tracker

EVERY_S = 2.0
RETRY_S = 30.0


class Sender:
    """One tracker in one attempt. `state` is the file of what was sent, for services that cannot be asked."""

    def __init__(self, connect: Callable[[], Tracker], feed: Feed, state: Path) -> None:
        self._connect, self._feed, self._state = connect, feed, state
        self._tracker: Tracker | None = None
        self._sent: Sent | None = None  # to be found out
        self._last_problem = ""

    def run(self, wait: Callable[[float], EndState | None]) -> None:
        """Send until `wait`, which gets the longest time to wait in seconds, returns how the attempt ended."""
        end, pause_s = None, EVERY_S
        while end is None:
            end = wait(pause_s)
            pause_s = EVERY_S if self._try_to_send() else RETRY_S
        if self._tracker is not None:
            try:
                self._tracker.close(end)
            except Exception as error:  # as below
                self._print_problem(error)

    def _try_to_send(self) -> bool:
        try:
            if not self._feed.look():
                return True
            if self._tracker is None:
                self._tracker = self._connect()
            if self._sent is None:
                self._sent = self._find_sent(self._tracker)
            self._send_all(self._tracker, self._sent)
        except Exception as error:  # of any library: the run must not suffer, and the next try may succeed
            self._print_problem(error)
            self._feed.rewind()
            self._sent = None  # the service may have taken a part
            return False
        self._last_problem = ""
        return True

    def _print_problem(self, error: Exception) -> None:
        if (problem := f"{type(error).__name__}: {error}") != self._last_problem:
            print(f"not sent yet: {problem}", flush=True)
        self._last_problem = problem

    def _find_sent(self, tracker: Tracker) -> Sent:
        stored = find_json(Sent, self._state) or Sent()
        step = tracker.last_step()
        return stored if step is None else Sent(step, min(stored.evaluation, step))

    def _send_all(self, tracker: Tracker, sent: Sent) -> None:
        while (found := self._feed.read(sent)) is not None:
            rows, sent = found
            if rows:
                tracker.send(rows)
                self._sent = sent
                write_json(self._state, sent)
