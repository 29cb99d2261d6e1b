"""An empty working directory, and the real command line in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from fsdpctl.cli.app import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test an empty working directory: not the home, and not the checkout, which has a `jobs` folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Return a function that runs `fsdpctl` with the given arguments."""

    def run(*args: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["fsdpctl", *args])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return Result(int(end.value.code or 0), captured.out, captured.err)

    return run
