"""What a host without a shared disk gets, and how its files are followed."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from fsdpctl.launchers.ssh.files import Stamp
from fsdpctl.launchers.ssh.growing import OVERLAP, grow
from fsdpctl.launchers.ssh.mirror import Sight, forgotten
from fsdpctl.launchers.ssh.push import Difference, compare
from fsdpctl.node import intake


def test_only_what_differs_travels() -> None:
    ours = {"plan.json": "600 aa", "code/a.py": "600 bb", "code/run": "700 cc"}
    theirs = {"plan.json": "600 aa", "code/a.py": "600 old", "code/run": "600 cc", "code/gone.py": "600 dd"}
    assert compare(ours, theirs) == Difference(("code/a.py", "code/run"), ("code/gone.py",))
    assert compare(ours, ours) == Difference((), ())


def request(root: Path, files: list[tuple[str, int, bytes, str | None]], remove: tuple[str, ...] = ()) -> io.BytesIO:
    announced = [(name, mode, len(data), link) for name, mode, data, link in files]
    head = {"root": str(root), "tops": ["code", "plan.json"], "files": announced, "remove": remove}
    return io.BytesIO(json.dumps(head).encode() + b"\n" + b"".join(data for _, _, data, _ in files))


def test_a_host_takes_files_in_whole_and_private(tmp_path: Path) -> None:
    root = tmp_path / "runs" / "r-abcd"
    files = [("plan.json", 0o600, b"{}", None), ("code/run", 0o700, b"x" * 10, None), ("code/alias", 0, b"", "run")]
    found = intake.main(request(root, files))
    assert not found["problem"]
    assert found["found"] == intake.inventory(root, ["plan.json", "code"])
    assert found["found"]["code/alias"] == "-> run"
    modes = {path.name: path.stat().st_mode & 0o777 for path in (root, root / "code/run", root / "plan.json")}
    assert modes == {"r-abcd": 0o700, "run": 0o700, "plan.json": 0o600}
    (root / "code" / "__pycache__").mkdir()
    (root / "code" / "__pycache__" / "a.pyc").touch()
    assert set(intake.main(request(root, [], ("code/alias",)))["found"]) == {"plan.json", "code/run"}

    short = request(root, [("plan.json", 0o600, b"new", None)])
    assert intake.main(io.BytesIO(short.getvalue()[:-1]))["problem"] == "the connection ended within a file"
    assert (root / "plan.json").read_text() == "{}"
    (tmp_path / "file").touch()
    assert intake.main(request(tmp_path / "file" / "x", files))["problem"].startswith("Not a directory: ")


@pytest.mark.parametrize(
    "contents",
    [
        [b"", b"one\n", b"one\ntwo\n", b"one\ntwo\n" + b"x" * 5000],
        [b"first attempt, one\n", b"second\n"],  # replaced by a shorter one
        [b"first attempt\n", b"second attempt, which is longer\n"],  # by a longer one
        [b"a" * 3 * OVERLAP, b"a" * 2 * OVERLAP + b"b" * 2 * OVERLAP],  # the end differs
    ],
)
def test_a_copy_follows_its_file(tmp_path: Path, contents: list[bytes]) -> None:
    copy = tmp_path / "metrics.jsonl"
    for content in contents:
        assert grow(copy, len(content), lambda offset, size, now=content: now[offset : offset + size])
        assert copy.read_bytes() == content


def test_a_long_file_comes_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsdpctl.launchers.ssh.growing.BLOCK", 10)
    content = bytes(range(25))
    done = [grow(tmp_path / "log", 25, lambda offset, size: content[offset : offset + size]) for _ in range(3)]
    assert (done, (tmp_path / "log").read_bytes()) == ([False, False, True], content)


def test_silence_counts_only_while_the_host_can_be_seen() -> None:
    now = [0.0]
    sight = Sight(clock=lambda: now[0])

    def look(seconds: float, beat: int | None) -> float:
        now[0] += seconds
        sight.sees(Stamp(0, beat) if beat is not None else None, begun=beat is not None)
        return sight.still_s()

    assert [look(9, None), look(9, 1), look(1, 2), look(9, 2)] == [0, 0, 0, 9]
    sight.loses()
    assert [look(99, 2), look(3, 2), look(1, 3)] == [0, 3, 0]


def test_a_removed_checkpoint_is_forgotten_and_a_missing_one_is_not() -> None:
    a, b, c = "step-00000001", "step-00000002", "step-00000003"
    assert forgotten([a, b], [b, c]) == [a]
    assert forgotten([a, b], [a]) == []
    assert forgotten([a, b], []) == []
