"""Exceptions that a process survived, by the lines around their tracebacks."""

from __future__ import annotations

import re

_GIVEN_UP = re.compile(
    r"""(?i)\bWARN(?:ING)?\b
    (?=.*\b(?:(?:skip|substitut|retry|ignor|continu|replac)\w*|retries|fall\w*\ back)\b)
    .*\b(?:sample|record|row|line|example|document|image|video|clip|audio|item|batch|file|shard|url|request|response
    |utterance|sequence|entry|download|upload|connection|attempt|try|message)(?:s|es)?\b
    """,
    re.VERBOSE,
)
"""A warning, with the exception as its details, that gives up a piece of the data or an attempt."""
_CONTINUES = re.compile(
    r"(?i)\b(?:skipping|skipped|retrying|falling back|ignoring|continuing|proceeding|substituting|replaced by)\b"
    r"|\bunavailable, using\b|\busing .{1,80} instead\b"
)
_IN_THREAD = re.compile(r"Exception in thread (?!.*pin_memory)")
"""The main thread ends, too, when the one that pins its memory does."""


def is_handled(before: str, after: str) -> bool:
    """Return whether the lines before and after a traceback show that the process continued.

    An exception in another thread than the main one ends only that thread.
    """
    return any((_IN_THREAD.match(before), _GIVEN_UP.search(before), _CONTINUES.search(after)))
