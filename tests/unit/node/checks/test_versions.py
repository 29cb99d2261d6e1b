"""A failing import of torch is named, with its fix."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fsdpctl.contract.findings import Check, Result
from fsdpctl.node.checks import versions


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


def test_a_slow_import_differs_from_a_missing_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "IMPORT_S", 0.2)
    _, [finding] = versions.read_versions(program(tmp_path / "python", "exec sleep 60"), {})
    assert (finding.check, finding.result) == (Check.TORCH, Result.FAIL)
    assert "has not imported torch within" in finding.reason
    assert "install" not in finding.fix


def test_the_last_line_of_a_failing_python_is_quoted(tmp_path: Path) -> None:
    _, [finding] = versions.read_versions(program(tmp_path / "python", "echo no such library >&2; exit 7"), {})
    assert finding.reason.endswith("exit code 7: no such library")
    assert finding.fix.startswith("install torch there")


@pytest.mark.parametrize(("forbidden", "result"), [("1", Result.WARN), ("", Result.OK)])
def test_missing_byte_code_of_torch_is_a_warning(tmp_path: Path, forbidden: str, result: Result) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import importlib, types\n__version__, version = '9.9', types.SimpleNamespace(cuda=None)\n"
        "for number in range(500): importlib.import_module(f'torch.part{number}')\n"
    )
    for number in range(500):
        (package / f"part{number}.py").touch()
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": forbidden}
    found, [finding] = versions.read_versions(sys.executable, env)
    assert found.torch == "9.9"
    assert (finding.check, finding.result) == (Check.BYTE_CODE, result)
    if result is Result.WARN:
        assert int(finding.reason.split()[0]) >= 501
        assert "unset PYTHONDONTWRITEBYTECODE" in finding.fix
