"""`fsdpctl data` as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.harness import fsdpctl

TEXT = "".join(f"paragraph {number} is about shards\nand their replicas\n\n" for number in range(300))


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from fsdpctl.cli.app import main; main()", "data", *arguments]


def data(*arguments: str) -> subprocess.CompletedProcess[str]:
    return fsdpctl("data", *arguments, cwd=Path.cwd(), expect=None)


def test_from_text_to_a_checked_data_set() -> None:
    made = data("prepare", "text.txt", "--out", "out", "--split-on", "")
    assert made.returncode == 0
    rows = dict(line.split(maxsplit=1) for line in made.stdout.splitlines())
    assert rows["directory"] == "out"
    assert rows["tokenizer"] == "bytes, 256 ids, 0 ends a document"
    hint = "hint: fsdpctl submit llm-tiny --set trainer.data.source=out --set trainer.model.vocab_size=256"
    assert made.stderr.splitlines()[-1] == hint
    assert data("show", "out").stdout == made.stdout
    assert data("check", "out").stdout.startswith("out: ok, ")
    shown = json.loads(data("show", "out", "--json").stdout)
    assert shown["train"][0]["documents"] + shown["val"][0]["documents"] == 300


def test_a_hint_can_be_typed_for_any_name_of_a_directory() -> None:
    made = data("prepare", "text.txt", "--out", "my data", "--split-on", "")
    assert "--set 'trainer.data.source=my data' " in made.stderr
    assert data("show", "no data").stderr.splitlines()[-1] == "hint: fsdpctl data prepare TEXT... --out 'no data'"


def test_ls_lists_prepared_and_damaged_directories() -> None:
    data("prepare", "text.txt", "--out", "sets/one", "--split-on", "")
    Path("sets/two").mkdir()
    Path("sets/two/index.json").write_text("{")
    header, one, two = data("ls", "sets").stdout.splitlines()
    assert header.split()[0] == "DIRECTORY"
    assert one.split()[0] == "sets/one" and one.endswith("bytes")
    assert two.split()[:4] == ["sets/two", "-", "-", "-"] and "sets/two/index.json:" in two
    found = json.loads(data("ls", "sets", "--json").stdout)
    assert [item["broken"] is None for item in found] == [True, False]


def test_check_names_the_damage_and_fails() -> None:
    for name in ("good", "bad"):
        data("prepare", "text.txt", "--out", name, "--split-on", "")
    os.truncate("bad/train-00000.bin", 100)
    checked = data("check", "bad", "good")
    assert checked.returncode == 1
    assert checked.stdout.startswith("good: ok, ")
    assert checked.stderr.startswith("error: bad/train-00000.bin has 100 bytes, its index lists ")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--val-fraction", "1"], "--val-fraction must be between 0 and 1, got 1"),
        (["--val-fraction", "nan"], "--val-fraction must be between 0 and 1, got nan"),
        (["--train-bpe", "256"], "--train-bpe must be at least 257, all bytes and an end token; got 256"),
        (["--train-bpe", "999999999999"], "--train-bpe must be at most 1,048,576, got 999,999,999,999"),
        (["--train-bpe", "300", "--tokenizer", "t.json"], "give one of the two"),
        (["--end-token", "</s>"], "--end-token is for a tokenizer.json"),
        (["--tokenizer", "t.json"], "t.json: the library tokenizers cannot read this tokenizer.json"),
        ([], "the validation split is empty: 1 document,"),
    ],
)
def test_wrong_arguments_are_refused_and_create_nothing(arguments: list[str], problem: str) -> None:
    result = data("prepare", "text.txt", "--out", "out", *arguments)
    assert result.returncode == 2
    [error] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert problem in error
    assert os.listdir() == ["text.txt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "module", "problem", "extra"),
    [
        ("a.jsonl.zst", "backports", ".zst input needs", "zstd"),
        ("a.parquet", "pyarrow", "Parquet and Arrow input need", "parquet"),
        ("text.txt", "numpy", "preparing data needs", "data"),
        ("text.txt --train-bpe 512", "tokenizers", "--train-bpe needs", "tokenizers"),
        ("text.txt --tokenizer t.json", "tokenizers", "a tokenizer.json needs", "tokenizers"),
    ],
)
def test_a_missing_library_is_named(arguments: str, module: str, problem: str, extra: str) -> None:
    name = arguments.split()[0]
    Path(name).write_text(TEXT)
    without = f"import sys; sys.modules['{module}'] = None; import importlib.util as u; find = u.find_spec;"
    without += f"u.find_spec = lambda name, *arguments: None if name == '{module}' else find(name, *arguments);"
    command = ["data", "prepare", *arguments.split(), "--out", "out"]
    script = f"{without} from fsdpctl.cli.app import main; main()"
    result = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    error, hint = result.stderr.splitlines()
    assert error.startswith(f"error: {problem}")
    assert f"{sys.executable} -m pip install " in hint
    assert f"[{extra}]'" in hint


@pytest.mark.slow
def test_a_long_prepare_shows_a_bar_and_ctrl_c_prints_how_to_continue() -> None:
    """On a terminal; the text is long enough for the key to find it at work."""
    with open("long.txt", "w") as file:
        for _ in range(10_000):
            file.write(TEXT)
    parent, child = pty.openpty()
    arguments = command("prepare", "long.txt", "--out", "out", "--split-on", "", "--workers", "1")
    arguments[2] = f"from fsdpctl.cli import progress_bar; progress_bar.QUIET_S = 0; {arguments[2]}"
    process = subprocess.Popen(arguments, stdin=child, stdout=subprocess.DEVNULL, stderr=child, start_new_session=True)
    os.close(child)
    seen = b""
    while b"preparing" not in seen:
        seen += os.read(parent, 1000)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) == 130
    while b"continues" not in seen:
        seen += os.read(parent, 1000)
    assert b"interrupted; the same command continues where this one stopped" in seen
    assert b"Traceback" not in seen
    os.close(parent)
    assert not Path("out").exists() and Path("out.partial").exists()


def test_a_strange_name_does_not_disturb_the_bar() -> None:
    data("prepare", "text.txt", "--out", "[/red]\x1b[2J", "--split-on", "")
    arguments = command("check", "[/red]\x1b[2J")
    arguments[2] = f"from fsdpctl.cli import progress_bar; progress_bar.QUIET_S = 0; {arguments[2]}"
    parent, child = pty.openpty()
    process = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=child, text=True, timeout=60)
    os.close(child)
    shown = os.read(parent, 100_000)
    os.close(parent)
    assert process.returncode == 0 and process.stdout.startswith("[/red]\\x1b[2J: ok")
    assert b"checking [/red]\\x1b[2J" in shown and b"\x1b[2J" not in shown
