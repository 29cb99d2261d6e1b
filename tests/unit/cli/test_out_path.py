"""`-` as the file of --out: stdout, or an error, and never a file of that name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.backends.harness import COMMAND

TO_STDOUT = [
    ["jobs", "export", "llm-tiny", "--to", "torchrun"],
    ["jobs", "import", "run.sh"],
    ["submit", "llm-tiny", "--dry-run"],
]


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text("torchrun --nproc-per-node 2 train.py\n")


def fsdpctl(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("words", TO_STDOUT, ids=lambda words: words[0] + words[1])
def test_text_goes_to_stdout(words: list[str]) -> None:
    without, given = fsdpctl(*words), fsdpctl(*words, "-o", "-")
    assert given.returncode == 0 and len(given.stdout.splitlines()) > 1
    assert len(given.stdout.splitlines()) == len(without.stdout.splitlines())
    assert [path.name for path in Path().iterdir()] == ["run.sh"]


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "import", "run.sh", "--profile-out", "-"],
        ["jobs", "init", "--from-script", "run.sh", "-o", "-"],
        ["metrics", "--out", "-"],
        ["checkpoints", "export", "some-run", "--out", "-"],
        ["data", "prepare", "run.sh", "--out", "-"],
    ],
    ids=lambda words: f"{words[0]} {words[1]}",
)
def test_what_only_a_file_can_hold_is_refused(words: list[str]) -> None:
    done = fsdpctl(*words)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr == "error: `-` is stdout, where this cannot be written\nhint: name a file\n"
    assert [path.name for path in Path().iterdir()] == ["run.sh"]
