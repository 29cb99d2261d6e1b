"""`fsdpctl jobs import` and `fsdpctl jobs export` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.cli.jobs_export import Target
from fsdpctl.cli.jobs_import import Kind
from fsdpctl.exporters.table import TARGETS
from fsdpctl.importers.table import KINDS
from fsdpctl.importers.table import SCRIPT as SCRIPT_KIND
from fsdpctl.specs.load import load_job, load_profile, parse_job
from tests.backends.harness import fsdpctl

SCRIPT = """#!/bin/bash
#SBATCH --job-name=big --nodes=2 --gpus-per-node=8 --partition=gpu
touch executed
export WANDB_API_KEY=not-to-be-written $(touch executed)
x=$(touch executed) y=`touch executed`
srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=8 train.py --out $SCRATCH/$(touch executed)
"""


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def jobs(*arguments: str) -> subprocess.CompletedProcess[str]:
    return fsdpctl("jobs", *arguments, cwd=Path.cwd(), expect=None)


def files() -> list[str]:
    return sorted(str(path) for path in Path().rglob("*") if path.is_file())


def test_the_options_name_what_the_tables_have() -> None:
    assert {*Kind} == {*KINDS, SCRIPT_KIND} and {*Target} == {*TARGETS}


def test_a_script_becomes_a_job_and_a_profile_and_nothing_of_it_runs() -> None:
    Path("big.sh").write_text(SCRIPT)
    done = jobs("import", "big.sh", "-o", "jobs/big.yaml", "--profile-out", "profile.yaml")
    assert (done.returncode, done.stdout) == (0, "jobs/big.yaml\n"), done.stderr
    assert files() == ["big.sh", "jobs/big.yaml", "profile.yaml"]
    job = load_job("big")
    assert (job.name, job.nodes, job.procs_per_node) == ("big", 2, 8)
    assert load_profile("./profile.yaml").pass_env == ("WANDB_API_KEY",)
    assert "not-to-be-written" not in done.stderr + Path("jobs/big.yaml").read_text() + Path("profile.yaml").read_text()
    change = "CHANGE args[1]: no shell fills in $SCRATCH: write the value"
    assert f"big.sh:6: {change}\n" in done.stderr and f"# {change}\n" in Path("jobs/big.yaml").read_text()

    again = jobs("import", "big.sh", "-o", "new.yaml", "--profile-out", "profile.yaml")
    assert (again.returncode, again.stdout) == (2, "") and "error: profile.yaml exists\n" in again.stderr
    assert not Path("new.yaml").exists(), "both files or none"


def test_the_profile_of_a_script_passes_its_check_without_a_notice() -> None:
    around = "source /shared/venv/bin/activate\nsrun --container-image=me/train --container-mounts=/data torchrun"
    Path("big.sh").write_text(SCRIPT.replace("srun torchrun", around))
    assert jobs("import", "big.sh", "-o", "big.yaml", "--profile-out", "profile.yaml").returncode == 0
    command = [sys.executable, "-c", "from fsdpctl.cli.app import main; main()", "profiles", "check", "./profile.yaml"]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stderr) == (0, "") and "ok, slurm" in checked.stdout
    assert "environment:\n  kind: pyxis\n  image: me/train\n" in Path("profile.yaml").read_text()


@pytest.mark.parametrize("profile", ["same.yaml", "./same.yaml", "sub/../same.yaml", "link/same.yaml"])
def test_job_and_profile_cannot_be_one_file(profile: str) -> None:
    Path("big.sh").write_text(SCRIPT)
    Path("sub").mkdir()
    Path("link").symlink_to(".")
    done = jobs("import", "big.sh", "-o", "same.yaml", "--profile-out", profile)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: --out and --profile-out are one file, same.yaml\n" in done.stderr
    assert not Path("same.yaml").exists()


def test_without_a_file_to_create_the_job_is_printed_and_json_has_all() -> None:
    Path("conf").mkdir()
    Path("conf/fsdp.yaml").write_text("distributed_type: FSDP\nnum_processes: 4\ndebug: false\nnew_key: 1\n")
    done = jobs("import", "conf/fsdp.yaml", "--script", "mine.py")
    job = parse_job(done.stdout, "stdout")
    assert (job.name, job.procs_per_node, job.entrypoint.script) == ("fsdp", 4, "mine.py")
    assert "conf/fsdp.yaml:4: new_key: not known here" in done.stderr
    shape = json.loads(jobs("import", "conf/fsdp.yaml", "--from", "llm-tiny", "--json").stdout)
    assert (shape["kind"], shape["profile"], shape["path"]) == ("accelerate", None, None)
    assert shape["job"]["trainer"]["model"]["d_model"] == 128
    assert shape["notes"][0] == {
        **{"file": "conf/fsdp.yaml", "line": 4, "key": "new_key", "text": "not known here", "must_change": False},
    }
    assert files() == ["conf/fsdp.yaml"]


def test_bad_files_end_with_exit_code_2_and_create_nothing() -> None:
    Path("wrong.json").write_text('{"zero_optimization": {"stage": 9},\n"fp16": {"enabled": 3}}')
    Path("nonsense").write_text("x: y\n" * 600_000)
    Path("binary").write_bytes(bytes(range(256)))
    expected = {
        "wrong.json": ["wrong.json:1: zero_optimization.stage: the stages", "wrong.json:2: fp16.enabled: must be true"],
        "nonsense": ["nonsense: larger than 1,000,000 bytes"],
        "binary": ["binary:2: byte 0x80 is not UTF-8"],
        "missing": ["missing: cannot read this configuration: No such file"],
    }
    for name, texts in expected.items():
        done = jobs("import", name, "-o", "out.yaml")
        assert (done.returncode, done.stdout) == (2, ""), name
        assert all(text in done.stderr for text in texts) and "Traceback" not in done.stderr, done.stderr
    assert not Path("out.yaml").exists()


def test_export_writes_a_file_once_and_lists_what_is_not_in_it() -> None:
    done = jobs("export", "llm-tiny", "--to", "sbatch", "-p", "slurm-h100", "-n", "2", "-o", "run.sh")
    assert (done.returncode, done.stdout) == (0, "run.sh\n"), done.stderr
    assert "#SBATCH --nodes=2\n" in Path("run.sh").read_text()
    assert "restarts (2): no run restarts after a failure, only after a requeue by Slurm\n" in done.stderr
    again = jobs("export", "llm-tiny", "--to", "sbatch", "-o", "run.sh")
    assert again.returncode == 2 and "error: run.sh exists" in again.stderr
    shape = json.loads(jobs("export", "llm-tiny", "--to", "jobset", "--json").stdout)
    assert shape["target"] == "jobset" and "kind: JobSet" in shape["text"] and shape["path"] is None
    assert jobs("export", "llm-tiny", "--to", "carrier-pigeon").returncode == 2
