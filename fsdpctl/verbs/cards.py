"""The kind of GPU that a cluster has: from an option, the profile, or this machine where ranks run here."""

from __future__ import annotations

import os

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.cards import CARDS, Card, find_card
from fsdpctl.errors import UsageError
from fsdpctl.specs.profile import ClusterProfile


def choose_card(profile: ClusterProfile, gpu: str | None) -> tuple[Card, str]:
    """Return the GPU, and what named it: the option, the profile or this machine. Raise UsageError."""
    known = ", ".join(CARDS)
    if gpu is not None:
        if (card := find_card(gpu)) is None:
            raise UsageError(f"--gpu {gpu}: no such GPU is known", hint=f"known are {known}")
        return card, "--gpu"
    if (found := find_profile_card(profile)) is None:
        raise UsageError(
            f"profile {profile.name} has no `gpu`, and this machine has none that is known",
            hint=f"--gpu NAME, or `gpu: NAME` in the profile; known are {known}",
        )
    return found


def find_profile_card(profile: ClusterProfile) -> tuple[Card, str] | None:
    """Return the GPU that a profile names, or that this machine has where ranks run here."""
    if profile.gpu is not None and (card := find_card(profile.gpu)) is not None:
        return card, f"profile {profile.name}"
    if get_backend(profile.backend.kind).runs_here and (card := find_own_card()) is not None:
        return card, "this machine"
    return None


def find_own_card() -> Card | None:
    """Return the GPU of this machine; the one with the least memory, if there are several kinds."""
    from fsdpctl.node.gpus.nvml import Nvml, NvmlError

    try:
        names = Nvml(os.environ).names()
    except NvmlError:
        return None
    cards = [find_card(name) for name in names]
    known = [card for card in cards if card is not None]
    return min(known, key=lambda card: card.memory_gib) if known and len(known) == len(cards) else None
