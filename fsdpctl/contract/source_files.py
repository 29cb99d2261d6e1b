"""Whose code a frame of Python is: the user's, or that of a library, of Python or of fsdpctl on a node."""

from __future__ import annotations

import re

_LIBRARY = re.compile(
    r"^<|(?:^|[/\\])(?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python3[\d.]*[/\\]"
    r"|[/\\]torch[/\\](?:distributed|nn|autograd|utils|cuda|optim|_\w+)[/\\.]"  # of a source tree
)
ON_NODES = "/fsdpctl/node/"
"""Of the copy in the run: it starts the script of a rank, and imports torch for it."""
INTEGRATIONS = "/fsdpctl/integrations/"
"""Of the same copy: it is called by the frameworks, and calls them."""


def is_library(file: str) -> bool:
    """Return whether a source file is of an installed package or of Python, or no file at all."""
    return _LIBRARY.search(file) is not None


def is_users(file: str) -> bool:
    """Return whether a frame in the stack of a rank is of the code that the user runs."""
    return not is_library(file) and ON_NODES not in file and INTEGRATIONS not in file
