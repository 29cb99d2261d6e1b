"""Which cache all nodes of an attempt start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Offer:
    """What one node has."""

    key: str
    ready: tuple[str, ...] = ()  # names of the caches of this key in its own directory, the newest first
    stored: str = ""  # name of the one that is saved with the run, if it is intact
    problem: str = ""  # why it can keep none


@dataclass(frozen=True)
class Choice:
    """The cache that all nodes use. Nodes that do not have it get it from the giver."""

    name: str = ""  # empty: each node uses the compiler's own directory
    giver: int | None = None  # None: no node has one, and all start with an empty one of this name
    takers: tuple[int, ...] = ()
    problem: str = ""


def choose(offers: Sequence[Offer], new_name: str) -> Choice:
    """Return the cache that most nodes have; among equals the one that is saved with the run."""
    for node, offer in enumerate(offers):
        if offer.problem:
            return Choice(problem=f"node {node}: {offer.problem}")
    if any(offer.key != offers[0].key for offer in offers):
        return Choice(problem="the nodes differ in code, versions or cards")
    names = [offer.stored for offer in offers if offer.stored] + [name for offer in offers for name in offer.ready]
    if not names:
        return Choice(new_name)
    held = [(*offer.ready, offer.stored) for offer in offers]
    name = max(names, key=lambda name: sum(name in names for names in held))
    giver = next(node for node, names in enumerate(held) if name in names)
    takers = tuple(node for node, offer in enumerate(offers) if name not in offer.ready)
    return Choice(name, giver, takers)
