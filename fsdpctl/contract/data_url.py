"""URLs of prepared data, such as `s3://bucket/prefix`: how they differ from paths, and what none may contain."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_URL = re.compile(r"[a-z][a-z0-9+.-]*(::[a-z][a-z0-9+.-]*)*://", re.IGNORECASE)


def is_url(source: str) -> bool:
    """Return whether this is a URL, and no path."""
    return _URL.match(source) is not None


def find_problem(url: str) -> str | None:
    """Return why this URL cannot be used, without the URL, which may contain a secret; None if it can."""
    parts = urlsplit(url.rpartition("::")[2])
    if "@" in parts.netloc or "?" in url:
        return (
            "a URL of data must not contain credentials or a query: it is logged and stored; access comes from the"
            " environment of the ranks, such as AWS_ACCESS_KEY_ID, AWS_PROFILE, or a role of the instance"
        )
    if "::" in url:
        return "a chain of file systems is not possible: data is cached by fsdpctl itself"
    if not (parts.netloc or parts.path.strip("/")):
        return "the URL names no bucket and no directory"
    return None
