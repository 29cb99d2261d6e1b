"""What all generated pages share: rows of Markdown tables, and the line at the foot."""

from __future__ import annotations

FOOT = "<!-- Written by docs/generate.py from the code. Change the code, then: make docs -->"


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
