"""A page as one file of HTML: no script, nothing from the network. Every text of a run is escaped. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from fsdpctl.contract.clock import MINUTE, format_time
from fsdpctl.run_report.chart import draw
from fsdpctl.run_report.document import (
    Block,
    Charts,
    Document,
    Listing,
    Notes,
    Paragraph,
    Rows,
    Section,
    Shares,
    Table,
    clean,
)
from fsdpctl.run_report.notes import Note

STYLE = Path(__file__).with_name("style.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_CODE = re.compile(r"`([^`]+)`")


def write_html(document: Document, now: float) -> str:
    """Return the page, made at this time."""
    title = text(f"{document.title}: {document.state}")
    mood = "good" if document.is_good else "bad"
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            f'<head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>",
            f"<style>\n{STYLE.read_text(encoding='utf-8')}</style></head>",
            "<body>",
            f"<header><h1>{text(document.title)}</h1>",
            f'<p><span class="state {mood}">{text(document.state)}</span>{text(document.lead)}</p></header>',
            *map(_section, document.sections),
            f"<footer>Made by fsdpctl report on {text(format_time(now, MINUTE))}.</footer>",
            "</body></html>",
            "",
        ]
    )


def text(raw: str) -> str:
    """Return a text of a run as HTML, with what is in backquotes as code."""
    return _CODE.sub(r"<code>\1</code>", escape(clean(raw))).replace("\n", "<br>")


def _section(section: Section) -> str:
    return "\n".join([f"<section><h2>{text(section.title)}</h2>", *map(_block, section.blocks), "</section>"])


def _block(block: Block) -> str:
    match block:
        case Rows():
            return f"<dl>{''.join(f'<dt>{text(key)}</dt><dd>{text(value)}</dd>' for key, value in block.rows)}</dl>"
        case Table():
            return _table(block)
        case Shares():
            return f'<div class="bar">{"".join(map(_part, block.parts))}</div>{_table(block.table)}'
        case Notes():
            return f'<ul class="notes">{"".join(map(_note, block.notes))}</ul>'
        case Charts():
            return _charts(block)
        case Listing():
            return f"<details><summary>{text(block.title)}</summary><pre>{escape(clean(block.text))}</pre></details>"
        case Paragraph():
            return f'<p class="hint">{text(block.text)}</p>'


def _part(part: tuple[str, float]) -> str:
    name, share = part
    label = f"{text(name)} {share:.0%}"
    return f'<span class="use-{escape(name)}" style="width:{share:.2%}" title="{label}">{label}</span>'


def _note(note: Note) -> str:
    see = f'<span class="see">{text(note.docs)}</span>'
    return f"<li><strong>{text(note.what)}.</strong> {text(capital(note.change))}. {see}</li>"


def _charts(charts: Charts) -> str:
    figures = "".join(draw(curve, charts.curves.marks) for curve in charts.curves.curves)
    kinds = {mark.kind for mark in charts.curves.marks}
    signs = [sign for kind, sign in (("restart", "dashed: restarts"), ("save", "triangles: saves")) if kind in kinds]
    legend = f'<p class="hint">{"; ".join(signs)}</p>' if signs else ""
    return f'<div class="charts">{figures}</div>{legend}'


def _table(table: Table) -> str:
    """Return a table; each cell knows its column's name, for narrow screens."""
    kinds = [' class="number"' if column in table.numbers else "" for column in range(len(table.header))]
    names = [f' data-name="{escape(name)}"' for name in table.header]
    head = "".join(f"<th{kind}>{text(name)}</th>" for kind, name in zip(kinds, table.header, strict=True))
    body = "".join(f"<tr>{_cells(row, kinds, names)}</tr>" for row in table.rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(row: Sequence[str], kinds: Sequence[str], names: Sequence[str]) -> str:
    cells = zip(row, kinds, names, strict=True)
    return "".join(f"<td{kind}{name}>{text(cell)}</td>" for cell, kind, name in cells)


def capital(sentence: str) -> str:
    """Return a sentence with a large first letter."""
    return sentence[:1].upper() + sentence[1:]
