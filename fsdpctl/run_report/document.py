"""A page as values: sections of blocks, which each writer makes into its format."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.curves.series import RunCurves
from fsdpctl.run_report.notes import Note
from fsdpctl.schema.credentials import hide_credentials


@dataclass(frozen=True)
class Rows:
    """Names with their values."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """Rows under a header; the columns in `numbers` are aligned to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Shares:
    """Parts of a whole, by name: a bar where the format can, and a table."""

    parts: tuple[tuple[str, float], ...]
    table: Table


@dataclass(frozen=True)
class Notes:
    """Advice."""

    notes: tuple[Note, ...]


@dataclass(frozen=True)
class Charts:
    """Curves; a writer without pictures leaves them out."""

    curves: RunCurves


@dataclass(frozen=True)
class Listing:
    """Long text as it is, behind its title: closed at first where the format can."""

    title: str
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


Block = Rows | Table | Shares | Notes | Charts | Listing | Paragraph


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """The whole page."""

    title: str
    state: str
    lead: str  # in one sentence
    is_good: bool
    sections: tuple[Section, ...]


def clean(text: str) -> str:
    """Return a text of a run without control characters, without those that reorder or hide others, and without
    credentials."""
    text = hide_credentials(text)
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in "\n\t" else ascii(sign)[1:-1] for sign in text)
