"""Read secrets where a process needs them, and keep them out of texts."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.notify import SecretPlace, place_name

_MIN_PART = 6
"""Shorter parts of a URL's path are words like `hooks`, not secrets."""


class SecretError(Exception):
    """A secret is not where it should be; the text contains nothing of it."""


def read_secret(place: SecretPlace) -> str:
    """Return the secret without blanks around it. Raise SecretError."""
    if place.env is not None:
        value = os.environ.get(place.env, "").strip()
        if not value:
            raise SecretError(f"the variable {place.env} is not set")
    else:
        try:
            value = read_bytes(Path(str(place.file)).expanduser()).decode().strip()
        except (OSError, RuntimeError) as error:
            raise SecretError(f"{place.file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        except UnicodeDecodeError:
            raise SecretError(f"{place.file} is no text") from None
        if not value:
            raise SecretError(f"{place.file} is empty")
    if not value.isprintable():
        raise SecretError(f"{place_name(place)} has more than one line, or a control character")
    return value


def hide(text: str, secret: str) -> str:
    """Return the text without the secret and, of a URL, without its path, its query and their parts."""
    url = urlsplit(secret) if "://" in secret else None
    parts = [secret]
    if url is not None:
        tails = [url.path, url.query, url.password or "", *re.split(r"[/?&=;]", f"{url.path}?{url.query}")]
        parts += [part for part in tails if len(part) >= _MIN_PART]
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part, "***")
    return text
