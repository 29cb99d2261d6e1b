"""What all generated pages share: rows of Markdown tables, and the line at the foot."""

from __future__ import annotations

FOOT = "<!-- Written by docs/generate.py from the code. Change the code, then: make docs -->"


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def as_sentence(text: str) -> str:
    """Return a description that begins with a word as a sentence."""
    if text[:1].isalpha():
        text = text[0].upper() + text[1:]
    return text if not text or text.endswith(".") else f"{text}."
