"""The screen of `top` as lines that fit: rows of the tree, the selected run, and the keys. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from fsdpctl.cli.output import GAP, safe
from fsdpctl.cli.terminal import fit, width
from fsdpctl.cli.top_rows import COLUMNS, Key, Row, make_rows
from fsdpctl.contract.clock import format_clock
from fsdpctl.verbs.top import TopRun

KEYS = "arrows move  enter opens  l logs  s stacks  S stop  C cancel  q quit"
OPEN_RANKS = 16
"""Runs with more ranks are shown by node at first."""
_ERROR_LINES = 3
_MOVES = {"up": -1, "k": -1, "down": 1, "j": 1}
_CONFIRMED = {"S": "stop", "C": "cancel"}


@dataclass
class View:
    """What the user has chosen: a row, the rows that are closed, and a command to confirm."""

    cursor: Key | None = None
    closed: set[Key] = field(default_factory=set)
    known: set[str] = field(default_factory=set)  # runs whose nodes were closed or opened at first
    asks: str = ""  # the command that waits for a yes

    def update(self, runs: Sequence[TopRun]) -> list[Row]:
        """Return the rows now; close the nodes of a large run once, and keep the cursor on a row."""
        for run in runs:
            if run.nodes and run.run_id not in self.known:
                self.known.add(run.run_id)
                if sum(len(node.ranks) for node in run.nodes) > OPEN_RANKS:
                    self.closed |= {Key(run.run_id, node.node) for node in run.nodes}
        rows = make_rows(runs, self.closed)
        keys = [row.key for row in rows]
        if self.cursor not in keys:
            parents = [Key(*self.cursor[:2]), Key(self.cursor.run_id)] if self.cursor else []
            self.cursor = next((key for key in parents if key in keys), keys[0] if keys else None)
        return rows

    def move(self, rows: Sequence[Row], by: int) -> None:
        """Move the cursor, within the rows."""
        keys = [row.key for row in rows]
        if self.cursor in keys:
            self.cursor = keys[min(max(keys.index(self.cursor) + by, 0), len(keys) - 1)]

    def toggle(self) -> None:
        """Open or close the row with the cursor."""
        if self.cursor is not None and self.cursor.rank is None:
            self.closed ^= {self.cursor}


def press(view: View, runs: Sequence[TopRun], key: str) -> list[str]:
    """Change the view by a key; return the words of the command to run, if it starts one."""
    if view.cursor is None:
        return []
    if view.asks:
        words = [view.asks, view.cursor.run_id] if key == "y" else []
        view.asks = "" if key else view.asks
        return words
    if key in _MOVES:
        view.move(make_rows(runs, view.closed), _MOVES[key])
    elif key in ("enter", " "):
        view.toggle()
    elif key in _CONFIRMED:
        view.asks = _CONFIRMED[key]
    elif key == "l":
        ranks = ["--rank", str(view.cursor.rank)] if view.cursor.rank is not None else []
        nodes = ["--node", str(view.cursor.node)] if view.cursor.node is not None and not ranks else []
        return ["logs", view.cursor.run_id, "--follow", *ranks, *nodes]
    elif key == "s" and (rank := _rank_at(view.cursor, runs)) is not None:
        return ["stacks", view.cursor.run_id, "--rank", str(rank)]
    return []


def _rank_at(cursor: Key, runs: Sequence[TopRun]) -> int | None:
    """Return the rank at the cursor: of a run or a node the one that has shown no progress for the longest time."""
    if cursor.rank is not None:
        return cursor.rank
    nodes = [node for run in runs if run.run_id == cursor.run_id for node in run.nodes]
    ranks = [rank for node in nodes if cursor.node in (None, node.node) for rank in node.ranks]
    return max(ranks, key=lambda rank: rank.age_s).rank if ranks else None


def draw(runs: Sequence[TopRun], view: View, columns: int, height: int) -> list[str]:
    """Return the lines of the whole screen; of too many rows those around the cursor."""
    rows = view.update(runs)
    selected = next((run for run in runs if view.cursor is not None and run.run_id == view.cursor.run_id), None)
    below = ["", *(describe_run(selected, columns) if selected else ["no runs"]), ""]
    below += (
        flow([f"{view.asks} {view.cursor.run_id}?", "y or n"], columns)
        if view.asks and view.cursor
        else flow(KEYS.split(GAP), columns)
    )
    header, *lines = table(rows, columns - 2)
    position = next((number for number, row in enumerate(rows) if row.key == view.cursor), 0)
    room = max(height - len(below) - 1, 3)
    first = min(max(position - room // 2, 0), max(len(lines) - room, 0))
    marked = [f"{'>' if number == position else ' '} {line}" for number, line in enumerate(lines)]
    screen = [f"  {header}", *marked[first : first + room], *below]
    return [fit(line, columns) if width(line) > columns else line for line in screen[:height]]


def table(rows: Sequence[Row], columns: int) -> list[str]:
    """Return a header and the rows as aligned columns: as many of them as fit, and none that is empty everywhere."""
    names = [safe(row.name) for row in rows]
    shown = [column for column in COLUMNS if any(row.cells.get(column) for row in rows)]
    widths = {column: max(width(column), *(width(row.cells.get(column, "")) for row in rows)) for column in shown}
    name_width = max([width("RUN"), *map(width, names)])
    while shown and name_width + sum(len(GAP) + widths[column] for column in shown) > columns:
        shown.pop()
    cells = [[name, *(row.cells.get(column, "") for column in shown)] for name, row in zip(names, rows, strict=True)]
    sizes = [name_width, *(widths[column] for column in shown)]
    return [GAP.join(map(_pad, line, sizes)).rstrip() for line in (["RUN", *shown], *cells)]


def describe_run(run: TopRun, columns: int) -> list[str]:
    """Return what is known of a run as a whole: progress, speed, why it is in its state, and its first error."""
    parts = [run.run_id, str(run.state)]
    parts += [f"step {run.step}{f'/{run.total_steps}' if run.total_steps else ''}"] if run.step is not None else []
    parts += [f"loss {run.loss:.4f}"] if run.loss is not None else []
    parts += [f"{run.tokens_per_s:,.0f} tokens/s"] if run.tokens_per_s is not None else []
    parts += [f"MFU {run.mfu:.1%}"] if run.mfu is not None else []
    if run.step_s is not None and run.step_min_s is not None and run.step_max_s is not None:
        parts.append(f"{run.step_s:.3g} s a step ({run.step_min_s:.3g} to {run.step_max_s:.3g})")
    parts += [f"ETA {format_clock(run.eta_s)}"] if run.eta_s is not None else []
    parts += [f"slow: rank {', '.join(map(str, run.slow_ranks))}"] if run.slow_ranks else []
    lines = flow(parts, columns) + _wrap(run.reason, columns)
    return lines + (_wrap(f"error: {run.error}", columns)[:_ERROR_LINES] if run.error else [])


def flow(parts: Sequence[str], columns: int) -> list[str]:
    """Return the parts in as few lines as they fit into, none of them divided."""
    lines: list[str] = []
    for part in map(safe, parts):
        if lines and width(lines[-1]) + len(GAP) + width(part) <= columns:
            lines[-1] += GAP + part
        else:
            lines.append(part)
    return lines


def _wrap(text: str, columns: int) -> list[str]:
    return textwrap.wrap(safe(text), columns, break_long_words=False, break_on_hyphens=False)


def _pad(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))
