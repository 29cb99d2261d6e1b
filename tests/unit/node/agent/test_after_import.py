"""A framework is changed right after its import, and a version that does not fit is left as it is."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from fsdpctl.node.agent import after_import


@pytest.fixture(autouse=True)
def _framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with an integration, in place of those that take seconds to import."""
    for name, text in {
        "trainers/__init__.py": "",
        "trainers/trainer.py": "CALLBACKS = ['flow']\n",
        "trainers/user.py": "from trainers.trainer import CALLBACKS\n",
        "integration.py": "def attach(module):\n    module.CALLBACKS.append('stop')\n",
        "misfit.py": "def attach(module):\n    module.no_such_list.append('stop')\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    importlib.invalidate_caches()


def test_a_module_that_imports_it_gets_the_changed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(after_import, "INTEGRATIONS", {"trainers.trainer": "integration"})
    after_import.attach_integrations()
    assert "trainers.trainer" not in sys.modules
    assert importlib.import_module("trainers.user").CALLBACKS == ["flow", "stop"]


def test_a_version_that_does_not_fit_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(after_import, "INTEGRATIONS", {"trainers.trainer": "misfit"})
    after_import.attach_integrations()
    assert importlib.import_module("trainers.user").CALLBACKS == ["flow"]
    assert "misfit does not fit this version of trainers.trainer" in capsys.readouterr().err
