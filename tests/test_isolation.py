"""The guard of conftest.py guards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsdpctl.runs.store import home as registry_home
from tests import services
from tests.conftest import REAL_HOME


def test_no_test_sees_the_real_home(home: Path) -> None:
    assert Path.home() == home != REAL_HOME
    assert registry_home().is_relative_to(home)


def test_a_missing_service_skips_here_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(services._IS_THERE, "torch", lambda: False)
    monkeypatch.delenv("FSDPCTL_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception):
        services.require("torch")
    monkeypatch.setenv("FSDPCTL_REQUIRE", "slurm,torch")
    with pytest.raises(pytest.fail.Exception):
        services.require("torch")
    assert "FSDPCTL_HOME" in os.environ
