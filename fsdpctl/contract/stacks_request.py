"""A request for the stacks of all ranks, and the answer of a node: what `fsdpctl stacks` and the agents exchange."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StacksRequest:
    """Replaced by the next one, whose answer counts for both."""

    number: str  # different in each


@dataclass(frozen=True)
class RankStacks:
    """The stacks of one rank."""

    rank: int
    text: str = ""  # as faulthandler wrote them; empty: none
    state: str = ""  # of its process, as in proc(5); empty: there is no process


@dataclass(frozen=True)
class StacksAnswer:
    """The ranks of one node."""

    number: str  # of the request
    ranks: tuple[RankStacks, ...]
