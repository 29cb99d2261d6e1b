"""Obey the requests for stacks that `fsdpctl stacks` puts into the directory of the attempt."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from fsdpctl.contract.codec import find_json, write_json
from fsdpctl.contract.paths import AttemptPaths, NodePaths
from fsdpctl.contract.stack_dump import find_main, parse_stacks
from fsdpctl.contract.stacks_request import RankStacks, StacksAnswer, StacksRequest
from fsdpctl.node.agent.stacks import read_stacks, request_stacks
from fsdpctl.node.os.usage import find_wait

ANSWER_S = 3.0
"""What the ranks get to write their stacks; one that is stopped, or has not started Python yet, writes none."""


class StacksRequests:
    """The requests to one node. Call `follow` a few times a second."""

    def __init__(
        self, attempt: AttemptPaths, paths: NodePaths, ranks: range, find_ranks: Callable[[], dict[int, int]]
    ) -> None:
        self._attempt, self._paths, self._ranks, self._find_ranks = attempt, paths, ranks, find_ranks
        self._answered = ""
        self._open: tuple[str, float] | None = None  # number of a request, and when it is answered at the latest
        self._last: tuple[RankStacks, ...] = ()

    def follow(self) -> None:
        """Ask the ranks at the first call with a new request; answer it at a later one, once they have written."""
        request = find_json(StacksRequest, self._attempt.stacks_request)
        if request is None or request.number == self._answered:
            return
        if self._open is None or self._open[0] != request.number:
            self._open, self._last = (request.number, time.monotonic() + ANSWER_S), ()
            request_stacks(self._paths, self._find_ranks())
            return
        found = self._read()
        if time.monotonic() > self._open[1] or (found == self._last and all(_is_whole(rank) for rank in found)):
            with suppress(OSError):  # a full disk
                write_json(self._paths.stacks_answer, StacksAnswer(request.number, found))
            self._answered = request.number
        self._last = found

    def _read(self) -> tuple[RankStacks, ...]:
        pids = self._find_ranks()
        return tuple(
            RankStacks(rank, read_stacks(self._paths, rank), find_wait(pids[rank]).state)
            if rank in pids
            else RankStacks(rank)
            for rank in self._ranks
        )


def _is_whole(rank: RankStacks) -> bool:
    return rank.state in ("", "T") or find_main(parse_stacks(rank.text)) is not None
