"""stop and cancel: end a run with a save, or at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.store import open_record


def ignore(text: str) -> None:
    """Report nothing."""


def stop(run: RunPaths, report: Callable[[str], None] = ignore) -> bool:
    """Ask the run to save and exit, without waiting for it; return False if nothing runs.

    `report` gets a line if the scheduler does not answer, and the run is asked through its directory.
    """
    return get_backend(open_record(run).backend).launcher.stop(run, report)


def stop_all(runs: Iterable[RunPaths], report: Callable[[str], None] = ignore) -> list[RunPaths]:
    """Ask many runs to save and exit, with few queries to a scheduler; return those that were alive."""
    of_backend: defaultdict[str, list[RunPaths]] = defaultdict(list)
    for run in runs:
        of_backend[open_record(run).backend].append(run)
    return [run for backend, own in of_backend.items() for run in get_backend(backend).stop_all(own, report)]


def was_forced(run: RunPaths) -> bool:
    """Return whether ranks of an own script did not exit by themselves within the grace of the newest stop."""
    newest = RunFacts(run).newest
    is_own = not run.trainer_config.exists()
    return is_own and newest is not None and any(end.is_forced for end in newest.ends.values())


def cancel(run: RunPaths, report: Callable[[str], None] = ignore) -> bool:
    """End the run now, unsaved; return False if nothing ran. Raise FsdpctlError naming what is still alive.

    `report`: as for `stop`.
    """
    return get_backend(open_record(run).backend).launcher.cancel(run, report)
