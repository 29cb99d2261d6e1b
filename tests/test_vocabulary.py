"""Retired words are found in prose, and good words and code are left alone."""

from __future__ import annotations

from pathlib import Path

from tests.vocabulary import find_retired

PYTHON = '''\
"""Nobody waits."""

def test_told_once() -> None:
    lies = f"{wish} in words"  # they meet, and the run goes
    # on
'''


def found(directory: Path, name: str, text: str) -> list[str]:
    (directory / name).write_text(text)
    return [line.partition(" ->")[0] for line in find_retired(directory, name)]


def test_markdown_without_its_inline_code(tmp_path: Path) -> None:
    assert found(tmp_path, "a.md", "It lies here and goes\non. `it lies\nhere`\n\nIt says\n") == [
        *("a.md:1: lies", "a.md:1: goes on"),
        "a.md:5: says",
    ]


def test_strings_comments_and_names_of_tests(tmp_path: Path) -> None:
    assert found(tmp_path, "a.py", PYTHON) == [
        *("a.py:1: Nobody", "a.py:3: told", "a.py:4: in words"),
        *("a.py:4: meet", "a.py:4: goes on"),
    ]


def test_good_words(tmp_path: Path) -> None:
    text = "A stand-in stands for it; aside from set-aside-3, the line ending goes on the wire. Silence the logger.\n"
    assert not found(tmp_path, "a.md", text)


def test_folders_and_what_is_skipped(tmp_path: Path) -> None:
    for name in ("a.md", "b.md", "c.bin", "older/d.md"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text("it lies\n")
    assert find_retired(tmp_path, "docs", ["docs/b.md", "docs/older"]) == ["docs/a.md:1: lies -> is stored, is located"]
