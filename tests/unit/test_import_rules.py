"""`make check` refuses an import that no rule allows, and a module that is in no layer."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fsdpctl.contract import NODE_FOLDERS, NODE_MODULES, RANK_FOLDERS

ROOT = Path(__file__).parents[2]

WRONG = {
    "a module in no layer": ("fsdpctl/utils.py", "", "Arrows point down"),
    "an arrow that points up": ("fsdpctl/runs/store.py", "import fsdpctl.verbs.stop", "Arrows point down"),
    "a backend that knows another": (
        "fsdpctl/backends/local/agents.py",
        "import fsdpctl.backends.ssh.hosts",
        "Backends",
    ),
    "a backend's file in no layer": ("fsdpctl/backends/helpers.py", "", "Backends do not know each other"),
    "a circle within a folder": ("fsdpctl/node/os/processes.py", "import fsdpctl.node.agent.guard", "No circles"),
    "a node that needs more": ("fsdpctl/node/agent/agent.py", "import fsdpctl.schema.types", "The node side"),
    "a node that needs a library": ("fsdpctl/runs/store.py", "import yaml", "The node side"),
    "a job that needs its backend": (
        "fsdpctl/backends/slurm/job/srun.py",
        "import fsdpctl.backends.base",
        "The node side",
    ),
    "a benchmark that knows more": (
        "fsdpctl/benchmarks/network/pairs.py",
        "import fsdpctl.verbs.stop",
        "Benchmarks run",
    ),
    "a trainer that knows more": (
        "train/loop.py",
        "import fsdpctl.node.os.processes",
        "The trainer knows the contract",
    ),
    "a trainer that needs a library": ("train/optim.py", "import rich", "The trainer knows the contract"),
    "a launcher that needs torch's side": ("fsdpctl/cli/app.py", "import train.config", "fsdpctl never imports"),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    for name in ("fsdpctl", "train"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "tests").mkdir()
    (root / "tests" / "__init__.py").touch()
    shutil.copy(ROOT / "tests" / "allow_list.py", root / "tests")
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    script = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "line", "rule"), WRONG.values(), ids=WRONG)
def test_a_wrong_import_fails(file: str, line: str, rule: str, copy: Path) -> None:
    path = copy / file
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n")
    try:
        done = lint(copy)
    finally:
        path.unlink() if before is None else path.write_text(before)
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(rule in text and "BROKEN" in text for text in done.stdout.splitlines()), done.stdout


def test_what_is_copied_to_a_node_is_what_the_rule_names() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    named = [
        module
        for rule in rules
        if rule["name"].startswith(
            ("The node side", "Benchmarks run in", "Integrations run in", "Trackers run beside", "Remote data")
        )
        for module in rule["source_modules"]
    ]
    copied = [*NODE_FOLDERS, *(name.removesuffix(".py") for name in NODE_MODULES), *RANK_FOLDERS]
    assert named == [f"fsdpctl.{name.replace('/', '.')}" for name in copied]
