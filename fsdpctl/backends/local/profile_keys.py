"""The keys of a local profile."""

from __future__ import annotations

from typing import Literal

from fsdpctl.backends.section import BackendSection


class LocalSection(BackendSection):
    """All nodes run as processes on this machine."""

    kind: Literal["local"] = "local"
