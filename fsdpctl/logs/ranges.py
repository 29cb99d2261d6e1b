"""Numbers and names as ranges, as ClusterShell and Slurm write node lists."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_NUMBERED = re.compile(r"(.*?)([0-9]+)([^0-9]*)")
_NUMBER = re.compile("[0-9]+")


def fold(numbers: Iterable[int]) -> str:
    """Return `0-3,6` for 0, 1, 2, 3, 6; a pair is written as `0,1`, which is as short."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def fold_ranks(ranks: Collection[int]) -> str:
    """Return `rank 4`, or `ranks 0-3,6`."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {fold(ranks)}"


def fold_nodes(nodes: Collection[int]) -> str:
    """Return `node 4`, or `nodes 0-3,6`."""
    return f"{'node' if len(nodes) == 1 else 'nodes'} {fold(nodes)}"


def fold_names(names: Iterable[str]) -> str:
    """Return `node[08-10],login` for node08, node09, node10 and login."""
    parts = [found.groups() if (found := _NUMBERED.fullmatch(name)) else (name, "", "") for name in names]
    padded = {(prefix, len(digits), suffix) for prefix, digits, suffix in parts if re.match("0[0-9]", digits)}
    groups: dict[tuple[str, int, str], list[str]] = {}
    for prefix, digits, suffix in parts:
        width = len(digits) if (prefix, len(digits), suffix) in padded else 0
        groups.setdefault((prefix, width, suffix), []).append(digits)
    return ",".join(_folded(*key, digits) for key, digits in groups.items())


def _folded(prefix: str, width: int, suffix: str, digits: list[str]) -> str:
    if len(digits) == 1:
        return f"{prefix}{digits[0]}{suffix}"
    numbers = _NUMBER.sub(lambda found: found[0].zfill(width), fold(map(int, digits)))
    return f"{prefix}[{numbers}]{suffix}"
