"""The files of an installation."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and unpack it."""
    where = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(where)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = where.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(where / "site-packages")
    return where / "site-packages"


def test_only_fsdpctl_is_at_the_top_level(installed: Path) -> None:
    assert {path.name.split("-")[0] for path in installed.iterdir()} == {"fsdpctl"}
    for part in ("train/__main__.py", "jobs/llm300m.yaml", "cluster_profiles/local.yaml"):
        assert (installed / "fsdpctl" / "bundled" / part).is_file()


def test_an_installed_fsdpctl_finds_its_bundled_files(installed: Path, tmp_path: Path) -> None:
    words = ["submit", "llm300m", "--nodes", "2", "--dry-run"]
    script = f"import sys; sys.argv = ['fsdpctl', *{words!r}]; from fsdpctl.cli.app import main; main()"
    env = {**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "-m train --config" in done.stdout
