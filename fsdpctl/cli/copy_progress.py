"""Show how a project is copied into a run: a bar if it takes long, its size if it is large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fsdpctl.cli.output import log
from fsdpctl.cli.progress_bar import Bar
from fsdpctl.contract.byte_progress import Progress

LARGE_BYTES = 50_000_000


@contextmanager
def show_copy() -> Iterator[Progress]:
    """Yield the Progress of the copy; report a large project at the end."""
    large: list[str] = []
    with Bar() as bar:

        def show(phase: str, done: int, total: int) -> None:
            bar(phase, done, total)
            if done == total:
                bar.close()  # a start has a live line of its own
                large[:] = [f"{phase}: {total / 1e6:,.0f} MB"] if total >= LARGE_BYTES else []

        yield show
    for line in large:
        log(f"{line}, kept with the run")
        log("hint: with git, ignored files are not copied; without git, only hidden files are left out")
