"""Errors as JSON, for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.cli.error_report import report_error
from tests.backends.harness import fsdpctl


def test_a_wrong_file_is_reported_key_by_key(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: x\nnodes: many\nentrypoint: {script: a.py}\ntrainer: {stepz: 1}\n")
    done = fsdpctl("submit", "./bad.yaml", "--json", cwd=tmp_path, expect=2)
    assert done.stdout == ""
    error = json.loads(done.stderr)["error"]
    assert (error["code"], error["kind"], error["hint"]) == (2, "usage", None)
    found = [(Path(problem["source"]).name, problem["line"], problem["key"]) for problem in error["problems"]]
    assert found[0] == ("bad.yaml", 2, "nodes")
    assert ("bad.yaml", 4, "trainer.stepz") in found
    assert error["problems"][0]["text"] == 'must be a whole number, got "many"'


def test_only_the_last_line_is_the_error(tmp_path: Path) -> None:
    done = fsdpctl("submit", "nothing", "--json", cwd=tmp_path, expect=2)
    error = json.loads(done.stderr.splitlines()[-1])["error"]
    assert (error["message"], error["problems"]) == ("no job named nothing", [])
    assert "known: llm-tiny" in error["hint"]
    assert "error: no job named nothing\nhint: " in fsdpctl("submit", "nothing", cwd=tmp_path, expect=2).stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("gc --keep -1 --json", "Invalid value for '--keep'"),
        ("submit --json", "Missing argument 'job'"),
        ("nosuch --json", "No such command 'nosuch'"),
        ("ls --wrong --json", "No such option: --wrong"),
    ],
)
def test_a_wrong_option_is_an_error_like_others(words: str, text: str, tmp_path: Path) -> None:
    error = json.loads(fsdpctl(*words.split(), cwd=tmp_path, expect=2).stderr)["error"]
    assert error["message"].startswith(text) and error["kind"] == "usage"


def test_options_of_another_command_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["fsdpctl", "shell", "x", "--", "ls", "--json"])
    report_error(1, "a\x9b\x1b[31m", "b")
    assert capsys.readouterr().err == "error: a\\x9b\\x1b[31m\nhint: b\n"
    monkeypatch.setattr("sys.argv", ["fsdpctl", "shell", "x", "--json"])
    report_error(5, "a\x9b\x1b[31m", "b")
    assert json.loads(capsys.readouterr().err)["error"]["message"] == "a\x9b\x1b[31m"
