"""Whole data sets: always the same bytes, and nothing that loads before all is written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fsdpctl.contract.formats.dataset import read_index, split_of
from fsdpctl.data import inputs
from fsdpctl.data.partial import Partial
from fsdpctl.data.prepare import PrepareRequest, choose_fraction, prepare
from fsdpctl.data.prepared import find_damage
from fsdpctl.data.recipe import Recipe
from fsdpctl.errors import BusyError, FsdpctlError, UsageError
from tests.unit.data.small_pieces import PIECE_BYTES


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "PIECE_BYTES", PIECE_BYTES)


def make(corpus: Path, target: Path, *, workers: int = 2, train_bpe: int | None = None, **recipe: object) -> Path:
    request = PrepareRequest([corpus], target, None, replace(Recipe(train_bpe=train_bpe), **recipe), workers)
    prepare(request, lambda what, done, total: None)
    return target


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def fsdpctl(limit: str, corpus: Path, target: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Prepare in a separate process, and wait until its workers have exited, too."""
    command = [sys.executable, "-m", "tests.unit.data.small_pieces", limit, "data", "prepare", str(corpus)]
    process = subprocess.Popen(
        [*command, "--out", str(target), "--workers", "2", *args],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    output, errors = process.communicate(timeout=120)
    wait_for_session(process.pid)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def wait_for_session(session: int) -> None:
    deadline = time.monotonic() + 30
    while left := [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_alive(pid, session)]:
        assert time.monotonic() < deadline, f"processes outlive a killed prepare: {left}"
        time.sleep(0.02)


def _is_alive(pid: int, session: int) -> bool:
    try:
        state, *_, found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return False
    return int(found) == session and state != "Z"  # orphans are reaped by init, at any time


def test_the_tokens_are_those_of_the_documents(corpus: Path, texts: list[str], tmp_path: Path) -> None:
    out = make(corpus, tmp_path / "out", val_fraction=0.1)
    index = read_index(out)
    assert len(index.train) == 5
    for split, shards in (("train", index.train), ("val", index.val)):
        expected = [text.encode() for text in texts if split_of(text.encode(), 0.1) == split]
        tokens = b"".join((out / shard.tokens_file).read_bytes() for shard in shards)
        assert tokens == b"".join(text + b"\0" for text in expected).decode("latin-1").encode("utf-16-le")
        ends = [np.fromfile(out / shard.ends_file, "<u8") for shard in shards]
        lengths = np.concatenate([np.diff(part, prepend=0) for part in ends])
        assert lengths.tolist() == [len(text) + 1 for text in expected]
        assert sum(shard.documents for shard in shards) == len(expected)
    train = np.concatenate([np.fromfile(out / shard.tokens_file, "<u2") for shard in index.train])
    shares = np.bincount(train)[np.bincount(train) > 0] / len(train)
    assert index.unigram_entropy == pytest.approx(-(shares * np.log(shares)).sum())
    assert find_damage(out, index, lambda num_bytes: None) == []
    assert not list(out.glob("*.partial")) and not (out / "lock").exists() and not (out / "pieces").exists()


@pytest.mark.slow
@pytest.mark.parametrize("train_bpe", [None, 300])
def test_any_number_of_workers_gives_the_same_bytes(corpus: Path, tmp_path: Path, train_bpe: int | None) -> None:
    one = make(corpus, tmp_path / "one", workers=1, train_bpe=train_bpe)
    many = make(corpus, tmp_path / "many", workers=5, train_bpe=train_bpe)
    assert contents(one) == contents(many)
    assert ("tokenizer.json" in contents(one)) == (train_bpe is not None)


@pytest.mark.slow
@pytest.mark.parametrize("args", [[], ["--train-bpe", "300"]])
def test_repeated_kills_do_not_change_the_bytes(corpus: Path, tmp_path: Path, args: list[str]) -> None:
    target = tmp_path / "out"
    num_kills = 0
    while fsdpctl("dies:11", corpus, target, *args).returncode == -signal.SIGKILL:
        num_kills += 1
        assert not target.exists()
        assert num_kills < 20
    assert num_kills >= 3
    straight = make(corpus, tmp_path / "straight", train_bpe=300 if args else None)
    assert contents(target) == contents(straight)


@pytest.mark.slow
def test_a_kill_at_the_beginning_or_end_does_not_change_the_bytes(corpus: Path, tmp_path: Path) -> None:
    straight = tmp_path / "straight"
    last = int(fsdpctl("counts", corpus, straight).stderr.split()[-1])
    for number in (1, 2, 3, last - 3, last - 2, last - 1, last):
        target = tmp_path / f"dies-{number}"
        assert fsdpctl(f"dies:{number}", corpus, target).returncode == -signal.SIGKILL
        assert not target.exists()
        make(corpus, target)
        assert contents(target) == contents(straight), f"killed before change {number} of {last}"


@pytest.mark.slow
def test_a_full_disk_is_reported_and_leaves_no_data_set(corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    result = fsdpctl("file:60000", corpus, target)
    assert result.returncode == 1
    assert (
        f"error: --out {target}: cannot write {target}.partial: File too large\nhint: free some space" in result.stderr
    )
    assert not target.exists() and not (tmp_path / "out.partial/index.json").exists()
    assert fsdpctl("none", corpus, target).returncode == 0
    assert contents(target) == contents(make(corpus, tmp_path / "straight"))


def test_the_output_may_be_below_the_input(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_bytes(corpus.read_bytes())
    target = tmp_path / "prepared/out"
    assert fsdpctl("dies:14", tmp_path, target).returncode == -signal.SIGKILL
    for _ in range(2):  # continues, then finds it done
        assert len(read_index(make(tmp_path, target)).train) == 5


def test_input_that_changes_during_the_work_is_refused(corpus: Path, tmp_path: Path) -> None:
    mine = tmp_path / "corpus.jsonl"
    mine.write_bytes(corpus.read_bytes())
    request = PrepareRequest([mine], tmp_path / "out", None, Recipe(), 2)
    with pytest.raises(UsageError, match=r"has changed while it was read: input .*corpus\.jsonl has changed"):
        prepare(request, lambda what, done, total: os.utime(mine))
    assert not (tmp_path / "out").exists()


def test_an_unwritable_output_is_named(corpus: Path) -> None:
    with pytest.raises(
        FsdpctlError, match=r"^--out /proc/data/set: cannot write /proc/data/set\.partial: No such file"
    ):
        make(corpus, Path("/proc/data/set"))


@pytest.mark.parametrize("kind", ["a file", "a device"])
def test_an_output_that_is_not_a_directory_is_named(corpus: Path, kind: str) -> None:
    out = corpus if kind == "a file" else Path("/dev/null")
    before = corpus.read_bytes()
    with pytest.raises(UsageError, match=f"^--out {out} exists and is not a directory$"):
        make(corpus, out)
    assert corpus.read_bytes() == before


def test_a_second_call_returns_at_once_and_other_options_are_refused(corpus: Path, tmp_path: Path) -> None:
    target = make(corpus, tmp_path / "out")
    before = (target / "index.json").stat()
    make(corpus, target, workers=1)
    assert (target / "index.json").stat() == before
    with pytest.raises(UsageError, match=r"was prepared with other options: val_fraction was 0\.02, now 0\.5"):
        make(corpus, target, val_fraction=0.5)
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError, match="exists and is not a data set of this command"):
        make(corpus, tmp_path / "mine")


def test_an_unfinished_data_set_continues_with_the_same_options_only(corpus: Path, tmp_path: Path) -> None:
    assert fsdpctl("dies:14", corpus, tmp_path / "out").returncode == -signal.SIGKILL
    with pytest.raises(
        UsageError, match=r"out.partial was begun with other options: split_on was None, now ''"
    ) as caught:
        make(corpus, tmp_path / "out", split_on="")
    assert "delete" in (caught.value.hint or "")
    make(corpus, tmp_path / "out")


def test_a_users_directory_of_that_name_is_not_reused(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial/thesis.tex").touch()
    with pytest.raises(UsageError, match=r"is not an unfinished data set: it contains thesis\.tex"):
        make(corpus, tmp_path / "out")


def test_only_one_command_prepares_at_a_time(corpus: Path, tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from fsdpctl.data.partial import Partial
from fsdpctl.data.recipe import Recipe
with Partial(Path(sys.argv[1])).begin(Recipe()):
    print("held", flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", script, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(BusyError, match=r"another command is preparing .*/out"):
            make(corpus, tmp_path / "out")


@pytest.mark.parametrize(("fraction", "name"), [(1e-9, "validation"), (1 - 1e-9, "training")])
def test_an_empty_split_is_refused_and_leaves_nothing(corpus: Path, tmp_path: Path, fraction: float, name: str) -> None:
    with pytest.raises(UsageError, match=f"the {name} split is empty: 400 documents"):
        make(corpus, tmp_path / "out", val_fraction=fraction)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("fraction", [0.02, 1 - 1e-9])
def test_of_three_documents_the_advised_fraction_holds_out_one(tmp_path: Path, fraction: float) -> None:
    lines = [json.dumps({"text": f"document {number}"}) + "\n" for number in range(3)]
    (tmp_path / "three.jsonl").write_text("".join(lines))
    with pytest.raises(UsageError, match="split is empty: 3 documents") as refused:
        make(tmp_path / "three.jsonl", tmp_path / "out", val_fraction=fraction)
    found = re.match(r"--val-fraction (\S+) holds out one of them", refused.value.hint or "")
    assert found is not None
    index = read_index(make(tmp_path / "three.jsonl", tmp_path / "out", val_fraction=float(found[1])))
    assert [sum(shard.documents for shard in shards) for shards in (index.train, index.val)] == [2, 1]


@pytest.mark.parametrize(
    ("draws", "fraction"),
    [
        ({0.31, 0.9}, 0.4),
        ({0.31, 0.32, 0.9}, 0.32),
        ({0.0, 0.5}, 0.1),
        ({0.12341, 0.12349}, 0.12342),
        ({0.3}, None),
        (set(), None),
    ],
)
def test_the_shortest_fraction_is_chosen(draws: set[float], fraction: float | None) -> None:
    assert choose_fraction(draws) == fraction


def test_bad_input_keeps_the_finished_pieces(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"{number} {'x' * 500}"}) + "\n" for number in range(200)]
    bad = tmp_path / "bad.jsonl"
    bad.write_text("".join(lines) + "{broken\n")
    with pytest.raises(UsageError, match=rf"{bad}:201: not valid JSON"):
        make(bad, tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()
    assert Partial(tmp_path / "out").load(0) is not None
