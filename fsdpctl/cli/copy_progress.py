"""What a person sees of a project that is copied into a run: a bar where it takes long, its size where it is large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fsdpctl.cli.output import log
from fsdpctl.cli.progress_bar import Bar
from fsdpctl.contract.byte_progress import Progress

LARGE_BYTES = 50_000_000


@contextmanager
def show_copy() -> Iterator[Progress]:
    """Gives the Progress of the copy; what was large is told at the end."""
    large: list[str] = []
    with Bar() as bar:

        def show(what: str, done: int, total: int) -> None:
            bar(what, done, total)
            if done == total:
                bar.close()  # a start has a live line of its own
                large[:] = [f"{what}: {total / 1e6:,.0f} MB"] if total >= LARGE_BYTES else []

        yield show
    for line in large:
        log(f"{line}, kept with the run")
        log("hint: what git ignores is not copied; in a folder without git only hidden files are left out")
