"""A page as Markdown, for issues, wikis and merge requests. Every text of a run is escaped. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fsdpctl.run_report.document import Block, Charts, Document, Listing, Notes, Paragraph, Rows, Shares, Table, clean
from fsdpctl.run_report.html import capital

_CODE = re.compile(r"(`[^`]+`)")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!])")


def write_markdown(document: Document) -> str:
    """Return the page."""
    lines = [f"# {text(document.title)}", "", f"**{text(document.state)}** {text(document.lead)}", ""]
    for section in document.sections:
        lines += [f"## {text(section.title)}", ""]
        for block in section.blocks:
            lines += [*_block(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def text(raw: str) -> str:
    """Return a text of a run in one line, with what is in backquotes as code."""
    parts = _CODE.split(" ".join(clean(raw).split()).replace("&", "&amp;"))
    return "".join(
        part.replace("|", r"\|") if odd % 2 else _SPECIAL.sub(r"\\\1", part) for odd, part in enumerate(parts)
    )


def _block(block: Block) -> Iterator[str]:
    match block:
        case Rows():
            yield from _table(("", ""), block.rows, ())
        case Table():
            yield from _table(block.header, block.rows, block.numbers)
        case Shares():
            yield from _block(block.table)
        case Notes():
            for note in block.notes:
                yield f"- **{text(note.what)}.** {text(capital(note.change))}. See {text(note.docs)}."
        case Charts():
            yield text(f"`fsdpctl metrics {block.curves.run_id}` draws them.")
        case Listing():
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
            yield from (f"{text(block.title)}:", "", fence, clean(block.text), fence)
        case Paragraph():
            yield text(block.text)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> Iterator[str]:
    yield _row(header)
    yield _row(["---:" if column in numbers else "---" for column in range(len(header))], is_raw=True)
    yield from map(_row, rows)


def _row(cells: Sequence[str], *, is_raw: bool = False) -> str:
    return f"| {' | '.join(cells if is_raw else map(text, cells))} |"
