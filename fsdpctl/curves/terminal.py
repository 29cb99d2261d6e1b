"""Curves as text, drawn by plotext: one chart for each number, one line for each run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fsdpctl.curves.series import MOST_SAVES, Mark, RunCurves, format_number, keys_of, label_of
from fsdpctl.errors import FsdpctlError, install_hint

HEIGHT = 14
TICKS = 5
MIN_WIDTH = 30
SIGNS = "abcdefghijklmnopqrstuvwxyz"
"""Of several runs, where there is no colour."""
SAVE = "s"
_ASCII = str.maketrans(
    {**dict.fromkeys("─", "-"), **dict.fromkeys("│┤├", "|"), **dict.fromkeys("┌┐└┘┬┴┼", "+"), "…": "~"}
)


def draw(runs: Sequence[RunCurves], width: int, *, has_color: bool, is_unicode: bool) -> str:
    """Return the charts and what their signs mean. Raise FsdpctlError without plotext."""
    plotext = _import_plotext()
    charts = [
        _draw_key(plotext, runs, key, max(width, MIN_WIDTH), has_color=has_color, is_unicode=is_unicode)
        for key in keys_of(runs)
    ]
    text = "\n".join([*charts, *_legend(runs)])
    return text if is_unicode else text.translate(_ASCII)


def _import_plotext() -> Any:
    """Return version 5 of plotext: version 6 has other functions, and takes a second to import."""
    try:
        import plotext
    except ImportError:
        plotext = None
    if not hasattr(plotext, "clear_figure"):
        raise FsdpctlError(
            "charts in the terminal need the package plotext, version 5",
            hint=f"{install_hint('plots')}; --csv and --json need no package",
        )
    return plotext


def _draw_key(
    plotext: Any, runs: Sequence[RunCurves], key: str, width: int, *, has_color: bool, is_unicode: bool
) -> str:
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(width, HEIGHT)
    plotext.title(label_of(key))
    curves = [curve for run in runs if (curve := run.curve(key)) is not None]
    lowest, highest = min(min(curve.values) for curve in curves), max(max(curve.values) for curve in curves)
    first, last = min(curve.steps[0] for curve in curves), max(curve.steps[-1] for curve in curves)
    plotext.xticks(steps := sorted({round(tick) for tick in _ticks(first, last)}), [f"{step:,}" for step in steps])
    plotext.yticks(_ticks(lowest, highest), [format_number(tick) for tick in _ticks(lowest, highest)])
    for number, run in enumerate(runs):
        if (curve := run.curve(key)) is None:
            continue
        is_alone = len(runs) == 1
        marker = ("braille" if is_unicode else "*") if is_alone or (has_color and is_unicode) else _sign(number)
        color = _COLORS[number % len(_COLORS)] if has_color else "default"
        plotext.plot(
            curve.steps, curve.values, marker=marker, color=color, label=None if is_alone else _name(number, run)
        )
        within = (mark for mark in run.marks if curve.steps[0] <= mark.step <= curve.steps[-1])
        _add_marks(plotext, list(within), lowest, color)
    built = str(plotext.build()).rstrip()
    return built if has_color else str(plotext.uncolorize(built))


def _ticks(low: float, high: float) -> list[float]:
    return [low + (high - low) * part / (TICKS - 1) for part in range(TICKS)] if high > low else [low]


_COLORS = ("blue+", "orange+", "green+", "red+", "magenta+", "cyan+")


def _add_marks(plotext: Any, marks: Sequence[Mark], lowest: float, color: str) -> None:
    for mark in marks:
        if mark.kind == "restart":
            plotext.vline(mark.step, color)
    saves = [mark.step for mark in marks if mark.kind == "save"]
    if 0 < len(saves) <= MOST_SAVES:
        plotext.scatter(saves, [lowest] * len(saves), marker=SAVE, color=color)


def _legend(runs: Sequence[RunCurves]) -> Iterator[str]:
    for number, run in enumerate(runs):
        name = run.run_id if len(runs) == 1 else _name(number, run)
        restarts = [mark for mark in run.marks if mark.kind == "restart"]
        parts = [f"| attempt {mark.attempt} from step {mark.step}" for mark in restarts]
        parts += (
            [f"{SAVE} {sum(mark.kind == 'save' for mark in run.marks)} saves"] if len(restarts) < len(run.marks) else []
        )
        yield "  ".join([name, *parts])


def _name(number: int, run: RunCurves) -> str:
    return f"{_sign(number)} {run.run_id}"


def _sign(number: int) -> str:
    return SIGNS[number % len(SIGNS)]
