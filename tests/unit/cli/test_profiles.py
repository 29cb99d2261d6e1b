"""`fsdpctl profiles ls|show|check` as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.errors import UsageError
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.specs.load import load_profile, parse_profile
from fsdpctl.specs.search import store_default_profile
from fsdpctl.verbs.submit import read_request
from tests.backends.harness import fsdpctl


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster_profiles").mkdir()


def profiles(*arguments: str) -> subprocess.CompletedProcess[str]:
    return fsdpctl("profiles", *arguments, cwd=Path.cwd(), expect=None)


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


def test_the_profile_is_that_of_the_option_the_job_the_variable_the_stored_one_or_local(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("a", "b", "c", "d"):
        Path(f"cluster_profiles/{name}.yaml").write_text(f"name: {name}\nbackend: local\ngpus_per_node: 0\n")

    def chosen(option: str | None = None, *overrides: str) -> tuple[str, str]:
        request = read_request("llm-tiny", option, overrides, dry_run=True)
        return request.profile.name, request.profile_source

    assert chosen() == ("local", "the built-in default")
    store_default_profile("a")
    assert chosen() == ("a", "fsdpctl profiles default")
    monkeypatch.setenv("FSDPCTL_PROFILE", "b")
    assert chosen() == ("b", "FSDPCTL_PROFILE")
    assert chosen(None, "profile=c") == ("c", "the job")
    assert chosen("d", "profile=c") == ("d", "--profile")
    monkeypatch.setenv("FSDPCTL_PROFILE", "nowhere")
    with pytest.raises(UsageError, match="no profile named nowhere") as refused:
        chosen()
    assert refused.value.hint == "this profile is from FSDPCTL_PROFILE; --profile takes another"


@pytest.mark.slow
def test_a_default_profile_is_stored_checked_and_forgotten() -> None:
    Path("cluster_profiles/mine.yaml").write_text("name: mine\nbackend: local\n")
    assert profiles("default", "./cluster_profiles/mine.yaml").stdout == f"{Path.cwd()}/cluster_profiles/mine.yaml\n"
    assert profiles("default", "nowhere").returncode == 2
    submit = [sys.executable, "-c", "from fsdpctl.cli.app import main; main()", "submit", "llm-tiny", "--dry-run"]
    done = subprocess.run(submit, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.splitlines()[0] == "profile mine (local), from fsdpctl profiles default"
    assert profiles("default", "--clear").stdout == "local\n"


@pytest.mark.slow
def test_a_large_model_is_not_trained_on_cpus_without_a_question() -> None:
    submit = [sys.executable, "-c", "from fsdpctl.cli.app import main; main()", "submit", "llm300m", "--nodes", "2"]
    done = subprocess.run(submit, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "error: 303,080,448 parameters and" in done.stderr and "--yes starts it all the same" in done.stderr
    ours, theirs = os.openpty()
    os.write(ours, b"n\n")
    done = subprocess.run(submit, capture_output=True, text=True, timeout=60, stdin=theirs)
    assert (done.returncode, "start it all the same? [y/N]" in done.stderr) == (1, True)
    assert not default_runs_root().exists()


@pytest.mark.slow
def test_a_dry_run_is_written_to_a_file() -> None:
    submit = [sys.executable, "-c", "from fsdpctl.cli.app import main; main()", "submit", "llm-tiny", "--out", "plan"]
    done = subprocess.run([*submit, "--dry-run", "--json"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads(Path("plan").read_text())["plan"]["job_name"] == "llm-tiny"
    refused = subprocess.run(submit, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "--out is the file of --dry-run" in refused.stderr
    os.mkfifo("pipe")  # as /dev/stdout and /dev/null, it must not be replaced
    with open("pipe", "rb", buffering=0, opener=lambda path, _: os.open(path, os.O_RDONLY | os.O_NONBLOCK)):
        done = subprocess.run([*submit[:-1], "pipe", "--dry-run"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and Path("pipe").is_fifo()
    wrong = subprocess.run([*submit[:-1], ".", "--dry-run"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2 and "error: cannot write .: Is a directory" in wrong.stderr
