"""A chart of a scaling benchmark as SVG: tokens/s over GPUs, both logarithmic, with the line of linear scaling. Pure.

SVG is text: it needs no library where the benchmark runs, and browsers, editors and code hosts show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import log2

from fsdpctl.scaling.result import Scaling, ScalingPoint, unit

WIDTH, HEIGHT = 720, 480
LEFT, RIGHT, TOP, BOTTOM = 90, 80, 60, 60
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")
DASHES = ("", "8 3", "2 3", "10 3 2 3", "5 5", "1 4")  # a colour is never the only sign

Place = Callable[[float, float], tuple[float, float]]


def draw(result: Scaling) -> str:
    """Return the chart; without a measured point, only its frame."""
    measured = [point for point in result.points if point.measured is not None]
    place, ticks = _axes(measured)
    title = f"{result.job} on {result.profile}: {result.scaling} scaling"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 30, title, size=16, anchor="middle"),
        _text(LEFT - 10, TOP - 14, "tokens/s", anchor="end"),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, f"{unit(result.device)}s", anchor="middle"),
        *ticks,
        *(line for curve in _curves(measured, place) for line in curve),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _axes(measured: Sequence[ScalingPoint]) -> tuple[Place, list[str]]:
    """Return where a number of GPUs and a speed are on the page, and the lines of the axes."""
    gpus = sorted({point.gpus for point in measured}) or [1]
    rates = [point.measured.tokens_per_s for point in measured if point.measured] or [1.0]
    rates += [rates[0] * gpus[-1] / measured[0].gpus] if measured else []
    low, high = _octaves(min(rates), max(rates))
    span = log2(gpus[-1] / gpus[0]) or 1.0

    def place(number: float, rate: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * log2(number / gpus[0]) / span
        return x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (log2(rate) - low) / (high - low)

    marks = []
    for octave in range(int(low), int(high) + 1):
        _, y = place(gpus[0], 2.0**octave)
        marks.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        marks.append(_text(LEFT - 10, y + 4, f"{2**octave:,}" if octave >= 0 else f"{2.0**octave:g}", anchor="end"))
    for number in gpus:
        x, _ = place(number, rates[0])
        marks.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        marks.append(_text(x, HEIGHT - BOTTOM + 20, str(number), anchor="middle"))
    return place, marks


def _octaves(low: float, high: float) -> tuple[float, float]:
    """Return the powers of two around two speeds."""
    first = log2(low) // 1
    return first, max(-(-log2(high) // 1), first + 1)


def _curves(measured: Sequence[ScalingPoint], place: Place) -> Iterator[list[str]]:
    if not measured:
        return
    first = min(measured, key=lambda point: point.gpus)
    last = max(point.gpus for point in measured)
    assert first.measured is not None
    ideal = [(first.gpus, first.measured.tokens_per_s), (last, first.measured.tokens_per_s * last / first.gpus)]
    yield [_polyline([place(*end) for end in ideal], "#888", "4 4")]
    yield [_text(place(*ideal[-1])[0] + 10, place(*ideal[-1])[1] - 8, "linear", color="#666")]
    named = list(dict.fromkeys(point.strategy for point in measured if point.strategy))
    strategies: list[str | None] = [*named] or [None]
    for number, strategy in enumerate(strategies):
        color, dash = COLORS[number % len(COLORS)], DASHES[number % len(DASHES)]
        alike = sorted((p for p in measured if p.strategy in (None, strategy)), key=lambda point: point.gpus)
        yield _curve(alike, place, strategy, color, dash, label_y=TOP + 20 * (number + 1))


def _curve(
    alike: Sequence[ScalingPoint], place: Place, strategy: str | None, color: str, dash: str, label_y: float
) -> list[str]:
    """Return the line of one strategy with its points, and its entry in the legend."""
    spots = [(point, place(point.gpus, point.measured.tokens_per_s)) for point in alike if point.measured]
    legend_x = LEFT + 15  # where no curve is: all of them rise
    return [
        _polyline([spot for _, spot in spots], color, dash),
        *(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="4" fill="{color}"/>' for _, at in spots),
        _polyline([(legend_x, label_y - 4), (legend_x + 24, label_y - 4)], color, dash),
        _text(legend_x + 30, label_y, _legend(strategy, alike[-1]), color=color),
    ]


def _legend(strategy: str | None, last: ScalingPoint) -> str:
    return f"{strategy or 'a single rank'}, {last.efficiency or 1:.0%} on {last.gpus}"


def _polyline(spots: Sequence[tuple[float, float]], color: str, dash: str) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>'


def _text(x: float, y: float, text: str, *, size: int = 13, anchor: str = "start", color: str = "#222") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}">{escape(text)}</text>'
    )
