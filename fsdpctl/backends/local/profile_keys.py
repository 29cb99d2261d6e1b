"""The keys of a local profile."""

from __future__ import annotations

from typing import Literal

from fsdpctl.backends.section import BackendSection


class LocalBackend(BackendSection):
    """Every node is a process group on this machine."""

    kind: Literal["local"] = "local"
