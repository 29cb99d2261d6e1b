"""CLI start-up is a feature: what a command may import, and how long its first output takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fsdpctl.cli.app import build_app, build_list
from tests.backends.harness import COMMAND
from tests.processor_time import command_done_within, command_seconds

HEAVY = {"torch", "numpy", "fabric", "paramiko", "submitit", "pydantic", "yaml", "rich"}

LIST_MODULES = """
import json, sys
from fsdpctl.cli import app
sys.argv = ["fsdpctl", *{arguments!r}]
try:
    app.main()
except SystemExit:
    pass
print(json.dumps(sorted({{name.split(".")[0] for name in sys.modules}})), file=sys.stderr)
"""


def imported(*arguments: str) -> set[str]:
    script = LIST_MODULES.format(arguments=list(arguments))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_help_imports_nothing_heavy() -> None:
    assert imported("--help") & HEAVY == set()
    assert imported("submit", "--help") & (HEAVY - {"pydantic"}) == set()  # Typer itself brings pydantic to a command


def test_the_list_of_commands_is_that_of_the_whole_app() -> None:
    runner = CliRunner()
    whole, listed = (runner.invoke(app, ["--help"], prog_name="fsdpctl") for app in (build_app(), build_list()))
    assert whole.stdout == listed.stdout and " submit " in listed.stdout


def test_a_dry_run_needs_no_torch_and_no_servers() -> None:
    needless = {"torch", "numpy", "fabric", "submitit", "rich", "xml", "concurrent", "ssl", "smtplib", "ctypes"}
    assert imported("submit", "llm300m", "--nodes", "2", "--dry-run") & needless == set()


@pytest.mark.parametrize(
    ("module", "needless"),
    [
        ("fsdpctl.node.agent.rank", {"fsdpctl.contract.plan", "fsdpctl.contract.trainer", "subprocess", "tempfile"}),
        ("fsdpctl.node.agent.__main__", {"fsdpctl.contract.trainer", "fsdpctl.estimate", "secrets", "pydantic"}),
        ("fsdpctl.backends.detached.__main__", {"fsdpctl.contract.trainer", "fsdpctl.estimate", "pydantic", "typer"}),
        ("fsdpctl.verbs.submit", {"fsdpctl.verbs.status", "fsdpctl.runs.evidence", "fsdpctl.contract.records"}),
    ],
)
def test_a_process_imports_nothing_of_another_ones_work(module: str, needless: set[str]) -> None:
    """Each class of records costs a millisecond, and each node starts an agent, each GPU a rank."""
    script = f"import json, sys, {module}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) & needless == set()


@pytest.mark.slow
def test_a_launcher_loads_no_plugin_of_another_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pydantic gives its plugins every value that it checks."""
    plugin = "class Plugin:\n    def new_schema_validator(self, *_, **__): return None, None, None\nplugin = Plugin()\n"
    (tmp_path / "curious.py").write_text(plugin)
    (tmp_path / "curious-1.0.dist-info").mkdir()
    (tmp_path / "curious-1.0.dist-info/entry_points.txt").write_text("[pydantic]\ncurious = curious:plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    anyone = "import pydantic; pydantic.TypeAdapter(int); import sys; assert 'curious' in sys.modules"
    subprocess.run([sys.executable, "-c", anyone], check=True)
    assert "curious" not in imported("submit", "llm300m", "--nodes", "2", "--dry-run")


def test_a_listing_reads_no_specs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path))
    assert imported("ls", "--json") & (HEAVY - {"pydantic"}) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "libraries", "limit"),
    [
        (("--help",), "import typer", 1.7),
        (
            ("submit", "llm300m", "--nodes", "2", "--dry-run"),
            "import typer, yaml; from pydantic import BaseModel, Field, TypeAdapter",
            3.0,
        ),
    ],
)
def test_the_first_output_comes_soon(arguments: tuple[str, ...], libraries: str, limit: float, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    least = command_seconds([sys.executable, "-c", libraries], env)
    command_done_within(limit * least, [sys.executable, COMMAND, *arguments], env)
