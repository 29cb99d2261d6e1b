"""Which sources a rank imports, beside a real editable install of the project."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import pytest

from fsdpctl.contract import Env
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.launch.live_sources import find_live_sources, select_live
from fsdpctl.node.os.processes import identify

ROOT = Path(__file__).parents[4]
SCRIPT = """
import subprocess, sys, mine, mine.part
print(mine.WHO, mine.part.WHO, file=open("seen", "w"))
subprocess.run([sys.executable, "-c", "import mine; print('child', mine.WHO, file=open('seen', 'a'))"], check=True)
"""
FINDER = """
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
MAPPING = {{"mine": "{package}"}}
def below(directory):
    return {{"submodule_search_locations": [directory]}}
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            return spec_from_file_location(name, MAPPING[name] + "/__init__.py", **below(MAPPING[name]))
def install():
    sys.meta_path.append(Finder)
"""  # as setuptools 84 writes it, in short


def write_project(project: Path, layout: str, who: str) -> Path:
    """Write the project with its package `mine`, and return the package."""
    package = project / layout / "mine"
    package.mkdir(parents=True, exist_ok=True)
    for name in ("__init__.py", "part.py"):
        (package / name).write_text(f"WHO = {who!r}\n")
    (project / "scripts").mkdir(exist_ok=True)
    (project / "scripts" / "main.py").write_text(SCRIPT)
    return package


def run_rank(python: Path, run: RunPaths, project: Path, *argv: str, pythonpath: str = "") -> list[str]:
    """Run a rank in the copy, as torchrun would, and return what its script has imported."""
    node = run.attempt(1).node(0)
    node.root.mkdir(parents=True, exist_ok=True)
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(filter(None, (str(run.code), pythonpath))),
        "PYTHONSAFEPATH": "1",
        "RANK": "0",
        Env.RUN_ID: run.root.name,
        Env.NODE_DIR: str(node.root),
        Env.NODE_RANK: "0",
        Env.RUN_DIR: str(run.root),
        Env.SUBMIT_DIR: str(project),
    }
    write_json(node.agent, identify(os.getppid()))  # a rank ends at once if it does not descend from an agent
    command = [str(python), "-m", "fsdpctl.node.agent.rank", *argv]
    done = subprocess.run(command, env=env, cwd=run.source, check=False)
    assert done.returncode == 0, node.rank_log(0).read_text()
    return (run.source / "seen").read_text().split()


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    run = RunPaths(tmp_path / "run")
    run.code.mkdir(parents=True)
    (run.code / "fsdpctl").symlink_to(ROOT / "fsdpctl")
    return run


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of an environment of its own."""
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    return tmp_path / "venv" / "bin" / "python"


def site_packages(python: Path) -> Path:
    return next((python.parent.parent / "lib").glob("python*/site-packages"))


@pytest.mark.parametrize("install", ["pth", "finder", "path"])
@pytest.mark.parametrize("layout", ["src", "."])
def test_the_copy_wins_over_an_editable_install_and_a_pythonpath_of_the_project(
    layout: str, install: str, tmp_path: Path, python: Path, run: RunPaths
) -> None:
    project = tmp_path / "project"
    package = write_project(project, layout, "live")
    write_project(run.source, layout, "copied")
    if install == "pth":
        (site_packages(python) / "__editable__.mine.pth").write_text(f"{package.parent}\n")
    elif install == "finder":
        (site_packages(python) / "__editable___mine_finder.py").write_text(FINDER.format(package=package))
        (site_packages(python) / "mine.pth").write_text("import __editable___mine_finder as f; f.install()\n")
    given = str(package.parent) if install == "path" else ""
    seen = run_rank(python, run, project, "scripts/main.py", pythonpath=given)
    assert seen == ["copied", "copied", "child", "copied"]
    assert run_rank(python, run, project, "-m", "scripts.main", pythonpath=given)[:2] == ["copied", "copied"]


def test_sources_of_the_repository_outside_of_the_copy_are_found(tmp_path: Path, python: Path) -> None:
    repository = tmp_path / "repository"
    package = write_project(repository, "src", "live")
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (site_packages(python) / "mine.pth").write_text(f"{package.parent}\n{tmp_path / 'other'}\n")
    (tmp_path / "other").mkdir()
    assert find_live_sources(str(python), repository) == []
    assert find_live_sources(str(python), repository / "scripts") == [str(package.parent)]
    assert find_live_sources(str(tmp_path / "none"), repository) == []


def test_an_environment_in_the_project_is_not_its_source(tmp_path: Path) -> None:
    for name in (".venv/lib", "generated", "src"):
        (tmp_path / name).mkdir(parents=True)
    path = [str(tmp_path / name) for name in (".venv/lib", "generated", "src")]
    assert select_live(path, str(tmp_path / ".venv"), tmp_path, tmp_path, ["src/a.py"]) == [str(tmp_path / "generated")]
