"""Credentials in free text, such as messages of errors: what is sent or passed on shows none."""

from __future__ import annotations

import re

from fsdpctl.schema.secret_names import is_secret

HIDDEN = "***"
_IN_URL = re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://)[^\s/:@]*:[^\s/@]+@")
_TOKEN = re.compile(r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-|AKIA|ASIA)[\w-]{12,}")
"""By their prefixes: Hugging Face, GitHub, GitLab, Slack, OpenAI and the like, AWS."""
_IN_HEADER = re.compile(r"(?i)\b(bearer|basic) +[\w.~+/=-]{12,}")
_ASSIGNED = re.compile(r"""\b([A-Za-z][\w-]*)(=["']?|["']: ?["'])([^\s"',;&]+)""")


def hide_credentials(text: str) -> str:
    """Return the text without passwords in URLs, known tokens, and values of names that seem to be secrets."""
    text = _IN_URL.sub(rf"\1{HIDDEN}@", text)
    text = _TOKEN.sub(HIDDEN, text)
    text = _IN_HEADER.sub(rf"\1 {HIDDEN}", text)
    return _ASSIGNED.sub(_hide_value, text)


def _hide_value(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    return f"{name}{between}{HIDDEN}" if is_secret(name.replace("-", "_"), value) else found[0]
