"""A curve as SVG within HTML, in the colours of the page: they follow its light and dark style. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import floor, log10

from fsdpctl.curves.series import MOST_SAVES, Curve, Mark, format_number, label_of
from fsdpctl.run_report.document import clean

WIDTH, HEIGHT = 400, 210
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 12, 24
_MIN_RANGE = 1e-300
"""A smaller one has no round numbers: they would be denormal."""


def draw(curve: Curve, marks: Sequence[Mark]) -> str:
    """Return a figure of one curve with its restarts and saves."""
    first, last = curve.steps[0], max(curve.steps[-1], curve.steps[0] + 1)
    ticks = nice_ticks(min(curve.values), max(curve.values))
    low, high = min(ticks[0], *curve.values), max(ticks[-1], *curve.values)

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - first) / (last - first)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low or 1.0)

    parts = [f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>' for tick in ticks]
    parts += [_text(LEFT - 6, y(tick) + 4, format_number(tick), "end") for tick in ticks]
    steps = [round(tick) for tick in nice_ticks(first, last, 4) if first <= tick <= last]
    parts += [_text(x(step), HEIGHT - 6, f"{step:,}", "middle") for step in dict.fromkeys(steps)]
    within = [mark for mark in marks if first <= mark.step <= last]
    for mark in within:
        if mark.kind == "restart":
            title = f"<title>attempt {mark.attempt} from step {mark.step}</title>"
            parts.append(f'<path class="restart" d="M{x(mark.step):.1f} {TOP}V{HEIGHT - BOTTOM}">{title}</path>')
    saves = [mark.step for mark in within if mark.kind == "save"]
    if len(saves) <= MOST_SAVES:
        parts += [f'<path class="save" d="M{x(step) - 3:.1f} {HEIGHT - BOTTOM}h6l-3 -6z"/>' for step in saves]
    points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in zip(curve.steps, curve.values, strict=True))
    parts.append(f'<polyline class="line" points="{points}"/>')
    name = escape(clean(label_of(curve.key)))
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name} over steps">{"".join(parts)}</svg>'
    return f"<figure><figcaption>{name}</figcaption>{svg}</figure>"


def nice_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Return about so many round numbers from `low` to `high`."""
    if high - low <= _MIN_RANGE:
        return [low]
    rough = (high - low) / count
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    start = floor(low / step)
    found = [tick * step for tick in range(start, start + 2 * count + 3)]
    return [tick for tick in found if low - step * 0.01 <= tick <= high + step * 0.01] or [low, high]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
