"""The pip command for an optional library, according to how fsdpctl itself was installed."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit


def install_hint(extra: str) -> str:
    """Return the command that adds an extra of `pyproject.toml` to this installation."""
    return f"{shlex.quote(sys.executable)} -m pip install {requirement(extra, _direct_url())}"


def requirement(extra: str, direct_url: str | None) -> str:
    """Return the argument of pip. `direct_url`: the text of direct_url.json, the source of fsdpctl if not an index."""
    origin = json.loads(direct_url) if direct_url else {}
    url = urlsplit(origin.get("url", ""))
    place = unquote(url.path) if url.scheme == "file" else "fsdpctl"
    option = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"{option}'{place}[{extra}]'"


def _direct_url() -> str | None:
    try:
        return distribution("fsdpctl").read_text("direct_url.json")
    except PackageNotFoundError:  # run from its sources, not installed
        return None
