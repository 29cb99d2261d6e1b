"""`fsdpctl profiles ls|show|check` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.specs.load import load_profile, parse_profile


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster_profiles").mkdir()


def profiles(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from fsdpctl.cli.app import main; main()", "profiles", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_ls_shows_a_broken_profile_among_the_others() -> None:
    Path("cluster_profiles/bad.yaml").write_text("name: bad\nbackend: slrum\n")
    result = profiles("ls")
    assert (result.returncode, result.stderr) == (0, "")
    rows = {line.split()[0]: " ".join(line.split()[1:-1]) for line in result.stdout.splitlines()}
    assert rows == {
        "NAME": "WHAT",
        "bad": "broken, see `check`",
        "local": "local",
        "slurm-h100": "slurm, 8 GPUs each",
        "ssh-h100": "ssh, 4 nodes, 8 GPUs each",
    }


def test_the_output_of_show_loads_again() -> None:
    result = profiles("show", "ssh-h100")
    assert (result.returncode, result.stderr) == (0, "")
    assert parse_profile(result.stdout, "stdout") == load_profile("ssh-h100")
    assert json.loads(profiles("show", "ssh-h100", "--json").stdout)["backend"]["kind"] == "ssh"


def test_check() -> None:
    Path("cluster_profiles/bad.yaml").write_text("name: bad\nbackend: slrum\n")
    result = profiles("check", "bad", "local", "slurm-h100", "ssh-h100")
    assert result.returncode == 2
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["local", "slurm-h100", "ssh-h100"]
    assert result.stderr.splitlines()[1] == (
        'cluster_profiles/bad.yaml:2: backend: must be one of local, ssh, slurm, got "slrum"; did you mean slurm?'
    )


def test_init_writes_a_copy_to_edit_and_never_over_a_file() -> None:
    made = profiles("init", "local")
    assert (made.returncode, made.stdout) == (0, "cluster_profiles/local.yaml\n")
    assert "# all nodes are one machine" in Path("cluster_profiles/local.yaml").read_text()
    assert profiles("init", "local").returncode == 2
    assert profiles("init", "mine", "--from", "ssh-h100").returncode == 0
    ours, base = load_profile("mine"), load_profile("ssh-h100")
    assert ours == base.model_copy(update={"name": "mine"})
