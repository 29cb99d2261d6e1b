"""Curves as PNG, SVG or PDF, drawn by matplotlib: one chart for each number, one line for each run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fsdpctl.curves.series import MOST_SAVES, RunCurves, keys_of, label_of
from fsdpctl.errors import FsdpctlError, UsageError, install_hint

FORMATS = (".png", ".svg", ".pdf")


def check_format(path: Path) -> None:
    """Raise UsageError for the name of a file that is no picture."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path} is no picture: its name must end in {', '.join(FORMATS)}")


def write_picture(runs: Sequence[RunCurves], path: Path) -> None:
    """Write the picture. Raise FsdpctlError without matplotlib, and OSError."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise FsdpctlError("pictures need the package matplotlib", hint=install_hint("plots")) from None
    keys = keys_of(runs)
    rows = -(-len(keys) // 2)
    figure = Figure(figsize=(10 if len(keys) > 1 else 6, 0.4 + 2.8 * rows), layout="constrained")
    axes = list(figure.subplots(rows, min(2, len(keys)), squeeze=False).flat)
    for axis, key in zip(axes, keys, strict=False):
        _draw_key(axis, runs, key)
    for axis in axes[len(keys) :]:
        axis.remove()
    figure.legend(*_entries(figure.axes), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=110)


def _draw_key(axis: Any, runs: Sequence[RunCurves], key: str) -> None:
    axis.set_title(_escape(label_of(key)))
    axis.set_xlabel("step")
    axis.grid(alpha=0.3)
    for number, run in enumerate(runs):
        if (curve := run.curve(key)) is None:
            continue
        color = f"C{number}"
        axis.plot(curve.steps, curve.values, color=color, linewidth=1.2, label=run.run_id)
        within = [mark for mark in run.marks if curve.steps[0] <= mark.step <= curve.steps[-1]]
        for restart in (mark.step for mark in within if mark.kind == "restart"):
            axis.axvline(restart, color=color, linestyle="--", linewidth=1, label="restart")
        saves = [mark.step for mark in within if mark.kind == "save"]
        bottom = axis.get_xaxis_transform()
        if 0 < len(saves) <= MOST_SAVES:
            axis.plot(saves, [0.02] * len(saves), "^", color=color, markersize=4, transform=bottom, label="save")


def _entries(axes: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Return the entries of all charts, each name once."""
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def _escape(text: str) -> str:
    """Return a text that matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")
