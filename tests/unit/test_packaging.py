"""The files of an installation, and what it does without extras."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from docs import licences_page, man_page

ROOT = Path(__file__).parents[2]
DATA = (
    *("fsdpctl/bundled/train/__main__.py", "fsdpctl/bundled/jobs/llm300m.yaml"),
    *("fsdpctl/bundled/cluster_profiles/local.yaml", "fsdpctl/.agents/skills/fsdpctl/SKILL.md"),
    "fsdpctl/explain/rules/05_records.yaml",
)


def build(target: str, source: Path, where: Path) -> Path:
    argv = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(where)]
    subprocess.run(argv, cwd=source, check=True, capture_output=True)
    (built,) = where.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fresh environment with the wheel and, as links, the packages that it declares without extras."""
    where = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(where)], check=True)
    python = where / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", "--no-compile"]
    subprocess.run([*pip, "--quiet", "--disable-pip-version-check", str(wheel)], check=True)
    (site_packages,) = where.glob("lib/python3*/site-packages")
    for name in licences_page.closure(map(Requirement, licences_page.project()["dependencies"])):
        distribution = metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            (site_packages / top).unlink(missing_ok=True)
            (site_packages / top).symlink_to(Path(str(distribution.locate_file(top))))
    return where


def fsdpctl(environment: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([environment / "bin/fsdpctl", *words], cwd=cwd, env=given, capture_output=True, text=True)


def test_only_fsdpctl_is_at_the_top_level(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("-")[0].partition("/")[0] for name in names} == {"fsdpctl"}
    assert set(DATA) <= set(names)


@pytest.mark.slow
def test_an_installed_fsdpctl_finds_its_bundled_files(environment: Path, tmp_path: Path) -> None:
    done = fsdpctl(environment, "submit", "llm300m", "--nodes", "2", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "-m train --config" in done.stdout


def test_the_man_page_and_completions_are_installed(environment: Path) -> None:
    for name, text in man_page.files().items():
        assert (environment / "share" / name).read_text() == text, "make docs"


@pytest.mark.slow
def test_without_extras_it_names_what_to_install(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("text\n")
    done = fsdpctl(environment, "data", "prepare", "text.txt", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "needs numpy" in done.stderr and "[data]" in done.stderr
    done = fsdpctl(environment, "doctor", "local", cwd=tmp_path)
    assert done.returncode == 1
    assert "-m pip install torch" in done.stdout


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", ROOT, tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("fsdpctl-*/")
    again = build("wheel", source, tmp_path / "again")
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()
