"""Files of other programs that are given as a job: the hint to import them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from fsdpctl.errors import UsageError
from fsdpctl.schema.problems import SpecError
from fsdpctl.specs.search import find_job
from fsdpctl.specs.text import read_text


@contextmanager
def hinting_at_import(job: str) -> Iterator[None]:
    """Add `jobs import` as the hint of a SpecError about a file of a kind that can be imported."""
    try:
        yield
    except SpecError as error:
        if error.hint is None and is_foreign(job):
            error.hint = f"it is of another program: `fsdpctl jobs import {shlex.quote(job)} -o FILE` makes a job of it"
        raise


def is_foreign(job: str) -> bool:
    """Return whether the file of a job is one that `jobs import` knows, and no job."""
    from fsdpctl.importers.read import recognize

    path = find_job(job)
    try:
        return recognize(read_text(path, "job"), str(path)) is not None
    except UsageError:
        return False
