"""`fsdpctl jobs ls|show|check` as a user runs them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fsdpctl.specs.load import load_job, parse_job
from tests.backends.harness import fsdpctl

GOOD = "name: good\nnodes: 2\nentrypoint: {module: mypackage.train}\n"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs").mkdir()


def jobs(*arguments: str) -> subprocess.CompletedProcess[str]:
    return fsdpctl("jobs", *arguments, cwd=Path.cwd(), expect=None)


def test_ls_shows_a_broken_job_among_the_others() -> None:
    Path("jobs/good.yaml").write_text(GOOD)
    Path("jobs/bad.yaml").write_text("name: bad\nnodes: 0\n")
    result = jobs("ls")
    assert (result.returncode, result.stderr) == (0, "")
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in result.stdout.splitlines()}
    assert rows["good"] == "2 nodes, module mypackage.train jobs/good.yaml"
    assert rows["bad"] == "broken, see `check` jobs/bad.yaml"
    assert rows["llm300m"].startswith("1 node, 303,080,448 parameters, 20,000 steps /")


def test_ls_json() -> None:
    Path("jobs/bad.yaml").write_text("name: bad\nnodes: 0\n")
    found = {item["name"]: item for item in json.loads(jobs("ls", "--json").stdout)}
    assert found["bad"]["path"] == "jobs/bad.yaml"
    assert "jobs/bad.yaml:2: nodes: must be at least 1, got 0" in found["bad"]["error"]
    assert found["llm-tiny"]["error"] is None


def test_the_output_of_show_loads_again() -> None:
    result = jobs("show", "llm300m")
    assert (result.returncode, result.stderr) == (0, "")
    assert parse_job(result.stdout, "stdout") == load_job("llm300m")
    shown = json.loads(jobs("show", "llm300m", "--json").stdout)
    assert shown["trainer"]["model"]["d_model"] == 1024
    assert shown["time_limit"] == "3d"


def test_check_goes_through_all_files() -> None:
    Path("jobs/good.yaml").write_text(GOOD)
    Path("jobs/bad.yaml").write_text("name: bad\nnodes: 0\nenvv: {}\n")
    result = jobs("check", "jobs/bad.yaml", "good", "llm300")
    assert result.returncode == 2
    assert result.stdout == "good: ok, 2 nodes, module mypackage.train\n"
    assert result.stderr.splitlines()[:4] == [
        "error: job jobs/bad.yaml has 2 problems",
        "jobs/bad.yaml:2: nodes: must be at least 1, got 0",
        "jobs/bad.yaml:3: envv: unknown key; did you mean env? known keys: name, profile, entrypoint, command, nodes, "
        "procs_per_node, args, env, time_limit, grace, stop_signal, warm, warm_imports, restarts, progress_regex, "
        "hang, restart_on, debug, report_to, lint, trainer",
        "no job named llm300; did you mean llm300m?",
    ]


def test_check_accepts_all_that_is_shipped() -> None:
    assert jobs("check", "llm-tiny", "llm-tiny-gpu", "llm90m", "llm300m", "llm7b").returncode == 0


def test_check_needs_a_name() -> None:
    result = jobs("check")
    assert (result.returncode, result.stdout) == (2, "")


def test_init_writes_a_copy_to_edit_and_never_over_a_file() -> None:
    made = jobs("init", "first")
    assert (made.returncode, made.stdout) == (0, "jobs/first.yaml\n")
    first, base = load_job("first"), load_job("llm-tiny")
    assert first == base.model_copy(update={"name": "first"})
    assert "# shard within a node" in Path("jobs/first.yaml").read_text()
    assert jobs("init", "llm90m").returncode == 0
    assert load_job("jobs/llm90m.yaml").trainer != base.trainer
    Path("jobs/first.yaml").write_text(GOOD)
    again = jobs("init", "first", "--from", "llm300m")
    assert again.returncode == 2
    assert again.stderr == "error: jobs/first.yaml exists\nhint: edit it, or choose another name\n"
    assert Path("jobs/first.yaml").read_text() == GOOD


def test_init_refuses_an_invalid_name_and_an_unknown_job() -> None:
    for arguments, problem in ((["../x"], "'../x' is no name"), (["x", "--from", "y"], "no job named y")):
        result = jobs("init", *arguments)
        assert result.returncode == 2 and problem in result.stderr
    Path("here.yaml").write_text("entrypoint: {module: m}\n'name': quoted\n")
    assert "has no line `name: ...` to change" in jobs("init", "x", "--from", "here.yaml").stderr
    assert not list(Path("jobs").iterdir())


def test_init_makes_a_job_for_a_script_with_its_arguments() -> None:
    Path("src").mkdir()
    Path("src/train.py").write_text("import helper\n")
    Path("src/helper.py").write_text("from accelerate import Accelerator\n")
    made = jobs("init", "--from-script", "./src/train.py", "--lr", "1e-3", "-v")
    assert (made.returncode, made.stdout) == (0, "jobs/train.yaml\n")
    assert "fsdpctl submit jobs/train.yaml --rehearse" in made.stderr
    job = load_job("train")
    assert (job.entrypoint.script, job.args) == ("src/train.py", ("--lr", "1e-3", "-v"))
    assert "# found: Accelerate (src/helper.py:1)\n" in Path("jobs/train.yaml").read_text()
    assert jobs("init", "--from-script", "src/train.py").returncode == 2  # it exists
    again = jobs("init", "-o", "mine.yaml", "--from-script", "src/train.py", "--", "--json")
    assert (again.returncode, load_job("mine.yaml").args) == (0, ("--json",))
    Path("src/part.py").write_text("from . import helper\n")
    for number, given in enumerate(("src/part.py", "src.part")):
        assert jobs("init", "-o", f"{number}.yaml", "--from-script", given).returncode == 0
        assert load_job(f"{number}.yaml").entrypoint.module == "src.part"


@pytest.mark.slow
def test_init_names_what_is_no_script_of_the_project() -> None:
    Path("broken.py").write_text("x = = 1\n")
    for arguments, problem in (
        (["--from-script", "none.py"], "none.py is no file below"),
        (["--from-script", "broken.py"], "broken.py:1: does not compile: invalid syntax"),
        (["--from-script", "broken.py", "--from", "llm-tiny"], "give one of them"),
        (["--from-script", "broken.py", "--hf_token", "hf_abc"], "--hf_token is a secret"),
        (["x", "--lr", "3"], "no such option: --lr"),
        (["x", "y"], "give one name for the new job, got 2"),
        (["x", "-o", "y.yaml"], "--out is the file of --from-script"),
    ):
        result = jobs("init", *arguments)
        assert result.returncode == 2 and problem in result.stderr, arguments
    assert not Path("jobs").exists() or not list(Path("jobs").iterdir())
