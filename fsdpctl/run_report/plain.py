"""A page as plain text, without what is long: configuration and edits. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from fsdpctl.run_report.document import Block, Charts, Document, Listing, Notes, Paragraph, Rows, Shares, Table, clean
from fsdpctl.run_report.html import capital

WIDTH = 80


def write_text(document: Document) -> str:
    """Return the page; lines of sentences are at most 80 columns wide."""
    lines = [clean(document.title), f"{document.state}: {_line(document.lead)}", ""]
    for section in document.sections:
        body = [line for block in section.blocks for line in _block(block)]
        lines += [section.title, "-" * len(section.title), *body, ""] if body else []
    return "\n".join(lines).rstrip() + "\n"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Rows():
            width = max(len(_line(key)) for key, _ in block.rows)
            yield from (f"{_line(key):<{width}}  {_line(value)}".rstrip() for key, value in block.rows)
        case Table():
            yield from _table([block.header, *block.rows], block.numbers)
        case Shares():
            yield from _block(block.table)
        case Notes():
            for note in block.notes:
                yield from _wrap(f"- {_line(note.what)}.", "  ")
                yield from _wrap(f"  {capital(_line(note.change))}. See {note.docs}.", "  ")
        case Charts():
            yield f"fsdpctl metrics {_line(block.curves.run_id)} draws them:"
        case Listing():
            return
        case Paragraph():
            yield from _wrap(_line(block.text), "")


def _table(rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> Iterator[str]:
    cells = [[_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _line(text: str) -> str:
    return " ".join(clean(text).split())
