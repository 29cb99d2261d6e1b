"""Record when the logs of this node grow, so that each line has a time, whichever rank wrote it."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from fsdpctl.contract.log_times import Growth, append_growth
from fsdpctl.contract.paths import NodePaths, times_of


class LogWatch:
    """The sizes of the logs of this node's ranks, of torchrun and of the agent. A look costs a stat of each log."""

    def __init__(self, paths: NodePaths, ranks: range) -> None:
        self._sizes = dict.fromkeys([*(paths.rank_log(rank) for rank in ranks), paths.torchrun_log, paths.agent_log], 0)
        self._since = time.time()
        for log in self._sizes:
            self._append(log)  # readers know from now on that there will be entries

    def look(self) -> None:
        """Add an entry to the index of each log that has grown since the last look; a full disk has none."""
        now = time.time()
        for log, known in self._sizes.items():
            size = _size(log)
            if size > known:
                self._sizes[log] = size
                self._append(log, Growth(size, self._since, now))
        self._since = now

    def _append(self, log: Path, *growths: Growth) -> None:
        with suppress(OSError):
            append_growth(times_of(log), *growths)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
