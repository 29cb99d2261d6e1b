"""What `progress_regex` of a job may be: read where a job is loaded, and on the node."""

from __future__ import annotations

import re

from fsdpctl.contract.metrics_lines import RESERVED

MAX_LENGTH = 1000


def compile_progress_regex(text: str) -> re.Pattern[str]:
    """Return the pattern. Raise ValueError for what is none, or names no step."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a pattern has at most {MAX_LENGTH} characters")
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression of Python: {error}") from None
    if "step" not in pattern.groupindex:
        raise ValueError("it needs a group named step, like 'step (?P<step>\\d+) loss (?P<loss>\\S+)'")
    if taken := [name for name in pattern.groupindex if name in RESERVED and name not in ("step", "total")]:
        raise ValueError(f"the group {taken[0]} is a key that each line of metrics.jsonl has already: rename it")
    return pattern
