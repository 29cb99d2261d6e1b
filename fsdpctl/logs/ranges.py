"""Numbers as ranges, the way ClusterShell and Slurm write node lists."""

from __future__ import annotations

from collections.abc import Iterable


def fold(numbers: Iterable[int]) -> str:
    """Return `0-3,6` for 0, 1, 2, 3, 6; a pair is written out, it is as short."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
