"""Read the curves of a run from its metrics, and the marks from its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from fsdpctl.contract.events import Event, EventKind
from fsdpctl.contract.metrics_lines import RESERVED
from fsdpctl.contract.paths import RunPaths
from fsdpctl.curves.gpus import GPU_KEYS, has_gpu_history, read_gpu_curves
from fsdpctl.curves.series import Curve, Mark, RunCurves, choose_keys
from fsdpctl.curves.thin import thin
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.metrics import read_metrics, recent_metrics
from fsdpctl.runs.timeline import read_timeline

_TIME = "time"
LARGEST = 1e150
"""The scale of a chart overflows with larger numbers; no comparison with NaN is true."""
_SAMPLE = 20
"""Lines at both ends of a file in which the names of its numbers are looked for."""


def read_curves(run: RunFacts, keys: Sequence[str] = ()) -> RunCurves:
    """Return the curves of a run: of these keys, else the usual ones. Raise CodecError and OSError if its record cannot
    be read."""
    return read_every_step(run, keys).thinned()


@dataclass(frozen=True)
class EveryStep:
    """What a run has recorded of every step, for those who count and for those who draw."""

    run_id: str
    job: str
    curves: tuple[Curve, ...]
    times: Curve  # when each step ended, in seconds since the epoch
    starts: Mapping[int, int]  # attempt -> its first step
    events: tuple[Event, ...]  # the whole history

    def thinned(self) -> RunCurves:
        return RunCurves(self.run_id, self.job, tuple(map(thin, self.curves)), tuple(_marks(self.starts, self.events)))


def read_every_step(run: RunFacts, keys: Sequence[str] = ()) -> EveryStep:
    """Read the files once. Raise CodecError and OSError if the run's record cannot be read."""
    starts: dict[int, int] = {}
    wanted = list(keys) or choose_keys(known_keys(run.paths))
    *found, times = _read_file(run.paths.metrics, [*wanted, _TIME], starts)
    found += _read_file(run.paths.evaluations, wanted, {})
    order = {key: number for number, key in enumerate(wanted)}
    recorded = {curve.key for curve in found if curve.values}
    found += [curve for curve in read_gpu_curves(run.paths, times) if curve.key in order and curve.key not in recorded]
    known = [curve for curve in found if curve.values]
    lines = [curve for curve in known if keys or len(curve.values) > 1]  # one evaluation is no curve
    curves = sorted(lines or known, key=lambda curve: order[curve.key])
    return EveryStep(run.run_id, run.record.job, tuple(curves), times, starts, tuple(read_timeline(run)))


def known_keys(run: RunPaths) -> list[str]:
    """Return the names of the numbers that the lines of a run have, in their order."""
    files = (run.metrics, run.evaluations)
    lines = chain.from_iterable(
        (*islice(read_metrics(path), _SAMPLE), *recent_metrics(path, _SAMPLE)) for path in files
    )
    found = dict.fromkeys(key for line in lines for key, value in line.items() if _is_shown(key, value))
    return list(found | dict.fromkeys(GPU_KEYS if has_gpu_history(run) else ()))


def read_rows(run: RunPaths, keys: Sequence[str]) -> Iterator[tuple[int | None, int | None, float | None, list[Any]]]:
    """Yield attempt, step, time and the values of these keys for each line of both files."""
    for line in chain(read_metrics(run.metrics), read_metrics(run.evaluations)):
        if (values := [_number(line.get(key)) for key in keys]) != [None] * len(keys):
            yield line.get("attempt"), line.get("step"), line.get("time"), values


def _read_file(path: Path, keys: Sequence[str], starts: dict[int, int]) -> list[Curve]:
    """Return a curve for each key, and note at which step each attempt starts."""
    steps: dict[str, list[int]] = {key: [] for key in keys}
    values: dict[str, list[float]] = {key: [] for key in keys}
    columns = [(key, steps[key].append, values[key].append) for key in keys]
    attempt = None
    for line in read_metrics(path):
        if (step := line.get("step")) is None or not -LARGEST < step < LARGEST:
            continue
        if line.get("attempt") != attempt and isinstance(attempt := line.get("attempt"), int):
            starts.setdefault(attempt, step)
        for key, add_step, add_value in columns:
            value: Any = line.get(key)
            if type(value) in (float, int) and -LARGEST < value < LARGEST:
                add_step(step)
                add_value(value)
    return [Curve(key, tuple(steps[key]), tuple(values[key])) for key in keys]


def _marks(starts: Mapping[int, int], events: Iterable[Event]) -> Iterator[Mark]:
    first = min(starts, default=0)
    yield from (Mark("restart", step, attempt) for attempt, step in starts.items() if attempt != first)
    for event in events:
        if event.kind is EventKind.SAVED and event.step is not None:
            yield Mark("save", event.step, event.attempt)


def _is_shown(key: str, value: object) -> bool:
    return key not in RESERVED and type(value) in (float, int)


def _number(value: object) -> float | None:
    if not isinstance(value, float | int) or isinstance(value, bool):
        return None
    return value if -LARGEST < value < LARGEST else None
