"""The files that a host without a shared disk gets, and the mirror of its own files."""

from __future__ import annotations

import errno
import io
import json
import os
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fsdpctl.backends.ssh.sync.append_sync import OVERLAP, append_sync
from fsdpctl.backends.ssh.sync.file_sets import (
    SLOWEST_READ_PER_S,
    data_files,
    run_files,
    weight_files,
)
from fsdpctl.backends.ssh.sync.heartbeat_age import HeartbeatAge
from fsdpctl.backends.ssh.sync.host_files import Stamp
from fsdpctl.backends.ssh.sync.mirror import Mirror, find_removed
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.backends.ssh.transport.ssh_config import Target
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.node.queries import receive_files
from fsdpctl.runs.copied import CopiedFiles, inventory_project
from fsdpctl.specs.load import load_job
from tests.backends.harness import wait_for

OURS = {"plan.json": b"{}", "code/run": b"x" * 10}


def request(
    root: Path, wanted: dict[str, str], files: list[tuple[str, int, bytes, str | None]], remove: tuple[str, ...] = ()
) -> io.BytesIO:
    announced = [(name, mode, len(data), link) for name, mode, data, link in files]
    what = {"root": str(root), "wanted": wanted, "tops": ["code", "plan.json"], "copied": {}}
    head = json.dumps({**what, "files": announced, "remove": remove})
    return io.BytesIO(head.encode() + b"\n" + b"".join(data for _, _, data, _ in files))


def test_a_host_reports_missing_files_and_receives_them_completely_and_privately(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "runs" / "r-abcd"
    (ours / "code").mkdir(parents=True)
    for name, data in OURS.items():
        (ours / name).write_bytes(data)
    (ours / "code/run").chmod(0o755)
    (ours / "code/alias").symlink_to("run")
    wanted = receive_files.inventory(ours, ["code", "plan.json"])
    assert receive_files.main(request(theirs, wanted, []))["missing"] == list(wanted)

    files = [(name, 0o755 if name == "code/run" else 0o644, data, None) for name, data in OURS.items()]
    answer = receive_files.main(request(theirs, wanted, [*files, ("code/alias", 0, b"", "run")]))
    assert answer == {"missing": [], "extra": [], "kept": []}
    modes = {path.name: path.stat().st_mode & 0o777 for path in (theirs, theirs / "code/run", theirs / "plan.json")}
    assert modes == {"r-abcd": 0o700, "run": 0o700, "plan.json": 0o600}

    (theirs / "code" / "__pycache__").mkdir()
    (theirs / "code" / "__pycache__" / "a.pyc").touch()
    (theirs / "code" / "old.py").touch()
    (theirs / "code" / "run").unlink()
    (theirs / "code" / "run").mkdir()
    (theirs / "plan.json").chmod(0o400)
    answer = receive_files.main(request(theirs, wanted, []))
    assert (answer["missing"], answer["extra"]) == (["code/run", "plan.json"], ["code/old.py"])
    answer = receive_files.main(request(theirs, wanted, files, ("code/old.py",)))
    assert answer == {"missing": [], "extra": [], "kept": []}

    short = request(theirs, wanted, [("plan.json", 0o600, b"new", None)])
    assert receive_files.main(io.BytesIO(short.getvalue()[:-1]))["problem"] == "the connection ended within a file"
    assert (theirs / "plan.json").read_text() == "{}"
    (tmp_path / "file").touch()
    assert receive_files.main(request(tmp_path / "file" / "x", wanted, files))["problem"].startswith(
        "Not a directory: "
    )


def test_what_ranks_of_a_host_wrote_into_the_copy_of_the_project_stays(tmp_path: Path) -> None:
    ours, theirs = RunPaths(tmp_path / "ours"), RunPaths(tmp_path / "theirs")
    for run in (ours, theirs):
        for name, text in {"main.py": "1", "old.py": "1", "log.csv": "step\n", "pkg/a.py": "1"}.items():
            (run.source / name).parent.mkdir(parents=True, exist_ok=True)
            (run.source / name).write_text(text)
    before = CopiedFiles().followed_by(inventory_project(ours))
    (theirs.source / "out").mkdir()
    (theirs.source / "out" / "model.pt").write_text("weights")
    (theirs.source / "log.csv").write_text("step\n1\n")
    (theirs.source / "new.py").write_text("of a rank")

    def send() -> dict[str, Any]:
        """As `push` does: ask, send, ask again."""
        answer: dict[str, Any] = {"missing": [], "extra": []}
        expected = {"root": str(theirs.root), "wanted": files.wanted, "tops": files.tops, "copied": dict(files.copied)}
        for _ in range(2):
            data = {name: (ours.root / name).read_bytes() for name in answer["missing"]}
            announced = [(name, 0o644, len(content), None) for name, content in data.items()]
            head = json.dumps({**expected, "files": announced, "remove": answer["extra"]}).encode() + b"\n"
            answer = receive_files.main(io.BytesIO(head + b"".join(data.values())))
        return answer

    write_json(ours.copied, before)
    files = run_files(ours)
    assert send() == {"missing": [], "extra": [], "kept": ["code/src/log.csv"]}, "at every start"

    (ours.source / "main.py").write_text("2")
    (ours.source / "old.py").unlink()
    (ours.source / "pkg" / "a.py").unlink()
    (ours.source / "pkg").rmdir()
    for name in ("new.py", "out", "pkg"):
        (ours.source / name).write_text("of the project")
    write_json(ours.copied, before.followed_by(inventory_project(ours)))
    files = run_files(ours)
    assert send() == {"missing": [], "extra": [], "kept": [f"code/src/{name}" for name in ("log.csv", "new.py", "out")]}
    found = {str(path.relative_to(theirs.source)): path.read_text() for path in theirs.source.rglob("*.*")}
    assert found == {
        "main.py": "2", "log.csv": "step\n1\n", "out/model.pt": "weights", "new.py": "of a rank"
    }  # fmt: skip
    assert (theirs.source / "pkg").read_text() == "of the project", "where a directory of the older copy was"


def test_a_mirror_outlives_a_full_disk_and_a_log_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunPaths(tmp_path)
    mirror = Mirror(Link(Target("a", "a")), run, run.attempt(1), 0, 1)

    def exchange(mirror: Mirror) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Mirror, "_exchange", exchange)
    with open("/dev/full", "wb", buffering=0) as full, redirect_stdout(io.TextIOWrapper(full)):
        mirror.start()
        mirror.close()


class Host:
    """The files of a node that has written nothing yet; `written` has what it was sent."""

    def __init__(self, *_: Any) -> None:
        self.written: list[str] = []

    def files(self, directory: Path) -> dict[str, Stamp]:
        return {}

    def read(self, path: Path, offset: int, size: int) -> bytes:
        return b""

    def write(self, path: Path, data: bytes) -> None:
        self.written.append(path.name)

    def close(self) -> None: ...


def test_each_touch_of_the_request_for_a_memory_snapshot_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host()
    monkeypatch.setattr("fsdpctl.backends.ssh.sync.mirror.HostFiles", lambda *_: host)
    monkeypatch.setattr("fsdpctl.backends.ssh.sync.mirror.EVERY_S", 0.01)
    run = RunPaths(tmp_path)
    run.attempt(1).node(1).root.mkdir(parents=True)
    run.supervisor.write_text("{}")
    request = run.attempt(1).memory_snapshot_request
    mirror = Mirror(Link(Target("a", "a")), run, run.attempt(1), 1, 2)
    mirror.start()
    request.touch()
    wait_for(lambda: host.written == [request.name], 30, "the first request")
    os.utime(request, (1, 1))
    wait_for(lambda: host.written == [request.name] * 2, 30, "the second request")
    mirror.close()
    assert len(host.written) == 2


@pytest.mark.slow  # imports torch
def test_data_are_compared_by_their_index_and_sizes(tmp_path: Path) -> None:
    """Reading hundreds of gigabytes at each start would take longer than sending what differs."""
    from train.data.tokens import write_dataset

    run, data = RunPaths(tmp_path / "run"), tmp_path / "data"
    run.root.mkdir()
    assert data_files(run) is None, "a script of the user"
    trainer = load_job("llm-tiny", [f"trainer.data.source={data}"]).trainer
    write_json(run.trainer_config, trainer)
    assert data_files(run) is None, "the hosts have the dataset"
    data.mkdir()
    text = [(split, np.frombuffer(b"some words", dtype=np.uint8)) for split in ("train", "val")]
    write_dataset(data, text, source="x", fingerprint="f", dtype="uint16", vocab_size=128)
    file_set = data_files(run)
    assert file_set is not None and file_set.whole
    names = ["train-00000.bin", "train-00000.ends", "val-00000.bin", "val-00000.ends", "index.json"]
    assert list(file_set.wanted) == names, "the index comes last"
    assert file_set.wanted["train-00000.bin"] == "size 20"
    assert file_set.read_limit_s == sum((data / name).stat().st_size for name in names[4:]) / SLOWEST_READ_PER_S
    assert not receive_files.find_missing(data, file_set.wanted)
    (data / "train-00000.bin").write_bytes(b"cut")
    assert receive_files.find_missing(data, file_set.wanted) == ["train-00000.bin"]


def test_weights_are_compared_by_digest_until_there_is_a_checkpoint(tmp_path: Path) -> None:
    weights = tmp_path / "llama"
    weights.mkdir()
    run = RunPaths(tmp_path / "run")
    run.root.mkdir()
    job = load_job("llm-tiny", [f"trainer.init_from={weights}"])
    assert job.trainer is not None
    write_json(run.trainer_config, job.trainer)
    (weights / "README.md").touch()
    assert weight_files(run) is None, "no weights here: each host must have them"
    for name in ("b.safetensors", "a.safetensors", "config.json"):
        (weights / name).write_text(name)
    file_set = weight_files(run)
    assert file_set is not None and list(file_set.wanted) == ["a.safetensors", "b.safetensors", "config.json"]
    (weights / "b.safetensors").write_text("c.safetensors")
    assert receive_files.find_missing(weights, file_set.wanted) == ["b.safetensors"], "of the same size"
    (run.checkpoints / "step-00000004").mkdir(parents=True)
    assert weight_files(run) is None


def test_all_files_of_a_sharded_checkpoint_or_the_one_of_torch(tmp_path: Path) -> None:
    sharded, full = tmp_path / "step-00000004", tmp_path / "fsdp_cpt4.pth"
    sharded.mkdir()
    for name in ("__1_0.distcp", "__0_0.distcp", ".metadata", "notes.txt"):
        (sharded / name).write_text(name)
    full.write_text("PK")
    for path, root, names in (
        (sharded, sharded, ["__0_0.distcp", "__1_0.distcp", ".metadata"]),
        (full, tmp_path, ["fsdp_cpt4.pth"]),
    ):
        run = RunPaths(tmp_path / f"run-{path.name}")
        run.root.mkdir()
        write_json(run.trainer_config, load_job("llm-tiny", [f"trainer.init_from={path}"]).trainer)
        file_set = weight_files(run)
        assert file_set is not None and (file_set.root, list(file_set.wanted)) == (root, names)


@pytest.mark.parametrize(
    "contents",
    [
        [b"", b"one\n", b"one\ntwo\n", b"one\ntwo\n" + b"x" * 5000],
        [b"first attempt, one\n", b"second\n"],  # replaced by a shorter one
        [b"first attempt\n", b"second attempt, which is longer\n"],  # by a longer one
        [b"a" * 3 * OVERLAP, b"a" * 2 * OVERLAP + b"b" * 2 * OVERLAP],  # the end differs
    ],
)
def test_a_copy_becomes_equal_to_its_file(tmp_path: Path, contents: list[bytes]) -> None:
    copy = tmp_path / "metrics.jsonl"
    for content in contents:
        assert append_sync(copy, len(content), lambda offset, size, now=content: now[offset : offset + size])
        assert copy.read_bytes() == content


def test_a_long_file_comes_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsdpctl.backends.ssh.sync.append_sync.BLOCK", 10)
    content = bytes(range(25))
    done = [append_sync(tmp_path / "log", 25, lambda offset, size: content[offset : offset + size]) for _ in range(3)]
    assert (done, (tmp_path / "log").read_bytes()) == ([False, False, True], content)


def test_the_age_of_a_heartbeat_counts_only_while_the_host_is_reachable() -> None:
    now = [0.0]
    heartbeat_age = HeartbeatAge(clock=lambda: now[0])

    def look(seconds: float, beat: int | None) -> float:
        now[0] += seconds
        heartbeat_age.update(Stamp(0, beat) if beat is not None else None, begun=beat is not None)
        return heartbeat_age.seconds()

    assert [look(9, None), look(9, 1), look(1, 2), look(9, 2)] == [0, 0, 0, 9]
    heartbeat_age.mark_unseen()
    now[0] += 98
    assert [look(1, 2), look(3, 2), look(1, 3)] == [0, 3, 0]


def test_a_checkpoint_that_the_node_removed_is_found_and_a_missing_one_is_not() -> None:
    a, b, c = "step-00000001", "step-00000002", "step-00000003"
    assert find_removed([a, b], [b, c]) == [a]
    assert find_removed([a, b], [a]) == []
    assert find_removed([a, b], []) == []
