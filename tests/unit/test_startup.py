"""CLI start-up is a feature: what `--help` may import, and how long the first words take."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launchers.harness import COMMAND

HEAVY = {"torch", "numpy", "fabric", "paramiko", "submitit", "pydantic", "yaml", "rich"}

LIST_MODULES = """
import json, sys
from fsdpctl.cli import app
sys.argv = ["fsdpctl", *{words!r}]
try:
    app.main()
except SystemExit:
    pass
print(json.dumps(sorted({{name.split(".")[0] for name in sys.modules}})), file=sys.stderr)
"""


def imported(*words: str) -> set[str]:
    script = LIST_MODULES.format(words=list(words))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_help_imports_nothing_heavy() -> None:
    assert imported("--help") & HEAVY == set()
    assert imported("submit", "--help") & (HEAVY - {"pydantic"}) == set()  # Typer itself brings pydantic to a command


def test_a_dry_run_needs_no_torch_and_no_servers() -> None:
    assert (
        imported("submit", "llm300m", "--nodes", "2", "--dry-run") & {"torch", "numpy", "fabric", "submitit"} == set()
    )


def test_a_listing_reads_no_specs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path))
    assert imported("ls") & (HEAVY - {"pydantic"}) == set()


@pytest.mark.parametrize(
    ("words", "limit_s"), [(("--help",), 0.15), (("submit", "llm300m", "--nodes", "2", "--dry-run"), 0.40)]
)
def test_the_first_words_come_soon(words: tuple[str, ...], limit_s: float, tmp_path: Path) -> None:
    """Processor time, the smallest of several: a busy machine must not decide."""
    best = min(_cpu_seconds([str(COMMAND), *words], tmp_path) for _ in range(5))
    assert best < limit_s


def _cpu_seconds(argv: list[str], cwd: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, cwd=cwd, stdout=subprocess.DEVNULL, check=True, env=dict(os.environ))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
