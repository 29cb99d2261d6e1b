"""Finding files, and cutting them into pieces."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fsdpctl.data import inputs
from fsdpctl.data.inputs import cut, find_inputs
from fsdpctl.data.recipe import InputFile, Recipe, differences
from fsdpctl.errors import UsageError


def test_directories_are_read_whole_and_in_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/y.txt", ".hidden", ".git/x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = find_inputs([tmp_path / "b.txt", tmp_path])
    assert [Path(file.path).relative_to(tmp_path).as_posix() for file in found] == ["b.txt", "a/y.txt", "a/z.txt"]


def test_a_missing_or_special_or_empty_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing: No such file"):
        find_inputs([tmp_path / "missing"])
    with pytest.raises(UsageError, match="/dev/null is not a regular file"):
        find_inputs([Path("/dev/null")])
    (tmp_path / "empty").touch()
    with pytest.raises(UsageError, match="1 files, all empty"):
        find_inputs([tmp_path])


def test_a_file_of_a_directory_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").symlink_to("missing")
    with pytest.raises(UsageError, match=r"b\.txt: No such file"):
        find_inputs([tmp_path])
    (tmp_path / "b.txt").unlink()
    os.mkfifo(tmp_path / "c.txt")
    with pytest.raises(UsageError, match=r"c\.txt is not a regular file"):
        find_inputs([tmp_path])


def test_a_directory_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def fail(path: str) -> object:  # root may read a directory of any mode
        if Path(path).name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(UsageError, match=f"input {tmp_path}/closed: Permission denied"):
        find_inputs([tmp_path])


def test_a_linked_directory_is_refused_unless_its_files_are_read_or_are_the_output(tmp_path: Path) -> None:
    corpus, other = tmp_path / "corpus", tmp_path / "other"
    for file in (corpus / "v1" / "a.txt", corpus / ".store" / "b.txt", other / "c.txt"):
        file.parent.mkdir(parents=True)
        file.write_text("text")
    (corpus / "latest").symlink_to("v1")
    assert [Path(file.path).name for file in find_inputs([corpus])] == ["a.txt"]
    (corpus / "linked").symlink_to(other)
    with pytest.raises(UsageError, match=f"input {corpus}/linked is a link to {other}, which is not below an input"):
        find_inputs([corpus])
    assert [Path(file.path).name for file in find_inputs([corpus, other])] == ["a.txt", "c.txt"]
    assert [Path(file.path).name for file in find_inputs([corpus], exclude=[other])] == ["a.txt"]
    for target in (corpus / ".store", tmp_path):
        (corpus / "linked").unlink()
        (corpus / "linked").symlink_to(target)
        with pytest.raises(UsageError, match=f"is a link to {target}, which"):
            find_inputs([corpus])


def test_small_files_share_a_piece_and_large_ones_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "PIECE_BYTES", 100)
    sizes = {"a.txt": 40, "b.txt": 50, "none.txt": 0, "c.txt": 30, "big.jsonl": 250, "packed.jsonl.gz": 250}
    recipe = Recipe(inputs=tuple(InputFile(name, size, 0) for name, size in sizes.items()))
    pieces = [[(span.path, span.start, span.stop) for span in piece.spans] for piece in cut(recipe)]
    assert pieces == [
        [("a.txt", 0, None), ("b.txt", 0, None), ("c.txt", 0, None)],
        [("big.jsonl", 0, 100)],
        [("big.jsonl", 100, 200)],
        [("big.jsonl", 200, 300), ("packed.jsonl.gz", 0, None)],
    ]
    assert sum(piece.num_bytes for piece in cut(recipe)) == sum(sizes.values())


def test_a_large_input_makes_larger_pieces_not_more() -> None:
    terabyte = Recipe(inputs=(InputFile("a.jsonl", 10**12, 0),))
    assert len(cut(terabyte)) <= inputs.MAX_PIECES + 1


def test_differences_are_listed_as_text() -> None:
    old = Recipe(inputs=(InputFile("a", 1, 1), InputFile("b", 1, 1)))
    assert differences(old, old) == []
    assert differences(old, Recipe(text_key="body", inputs=old.inputs)) == ["text_key was 'text', now 'body'"]
    assert differences(old, Recipe(inputs=(InputFile("a", 1, 2), InputFile("c", 1, 1)))) == [
        "input b is gone",
        "input c is new",
        "input a has changed",
    ]
    assert differences(old, Recipe(inputs=old.inputs[::-1])) == ["the inputs are in another order"]
    assert differences(old, Recipe(inputs=tuple(InputFile(str(n), 1, 1) for n in range(9))))[-1] == "and 8 more"
