from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.specs.load import load_job, parse_profile
from fsdpctl.verbs.submit import prepare


@pytest.mark.parametrize(
    ("given", "root"), [("runs", "work/runs"), ("../runs", "work/../runs"), ("~/runs", "home/runs"), ("/runs", "/runs")]
)
def test_a_run_is_found_from_anywhere(given: str, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    profile = parse_profile(f"name: p\nruns_root: {given}\n", "p.yaml")
    assert prepare(profile, load_job("llm-tiny"), run_id="r").plan.run_dir == str(tmp_path / root / "r")
