"""What stands in the way of torch is named, with what mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.check import Check, Result
from fsdpctl.node.checks import versions


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


def test_a_slow_import_is_not_taken_for_a_missing_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "IMPORT_S", 0.2)
    _, [finding] = versions.read_versions(program(tmp_path / "python", "exec sleep 60"), {})
    assert (finding.check, finding.result) == (Check.TORCH, Result.FAIL)
    assert "has not imported torch within" in finding.reason
    assert "install" not in finding.fix


def test_a_python_that_dies_is_quoted(tmp_path: Path) -> None:
    _, [finding] = versions.read_versions(program(tmp_path / "python", "echo no such library >&2; exit 7"), {})
    assert finding.reason.endswith("exit code 7: no such library")
    assert finding.fix.startswith("install torch there")
