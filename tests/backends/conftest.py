"""What the suites share that compare a run bit for bit. Suites with other jobs have a `project` of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends import exact
from tests.services import require


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prepared data, shared by the runs of a module."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def project(tmp_path: Path, home: Path, data: Path) -> Path:
    """A directory with the job file exact.yaml."""
    require("torch")
    (home / "fsdpctl").mkdir()
    (home / "fsdpctl" / "data").symlink_to(data)
    (tmp_path / "exact.yaml").write_text(exact.JOB)
    return tmp_path


@pytest.fixture(scope="module")
def reference() -> exact.Reference:
    """The curve of the undisturbed run, computed once a module."""
    return exact.Reference()
