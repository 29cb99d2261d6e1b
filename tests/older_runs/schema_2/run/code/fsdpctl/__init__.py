"""fsdpctl: launch, watch, stop and resume multi-node PyTorch FSDP runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsdpctl.client import Client as Client
    from fsdpctl.client import Run as Run

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the Python API when it is first used: the command line and the nodes start without it."""
    if name in ("Client", "Run"):
        from fsdpctl import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
