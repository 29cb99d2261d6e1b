from __future__ import annotations

import threading
from pathlib import Path

from fsdpctl.contract.notes import Note, leave_note, read_note


def test_the_first_note_stays(tmp_path: Path) -> None:
    path = tmp_path / "stop"
    assert read_note(path) is None
    assert leave_note(path, "user", "fsdpctl stop")
    assert not leave_note(path, "time")
    assert read_note(path) == Note("user", "fsdpctl stop")
    assert list(tmp_path.iterdir()) == [path]


def test_a_touched_file_is_a_note_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "stop").touch()
    assert read_note(tmp_path / "stop") == Note("", "")


def test_of_many_writers_one_wins(tmp_path: Path) -> None:
    path, won = tmp_path / "abort", []
    threads = [threading.Thread(target=lambda n=n: won.append((leave_note(path, f"w{n}"), n))) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [n for ok, n in won if ok]
    assert read_note(path) == Note(f"w{winner}", "")
