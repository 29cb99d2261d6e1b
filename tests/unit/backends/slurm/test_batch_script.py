"""The batch script: every option of a profile is in it, and nothing else can be."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.backends.slurm.batch_script import batch_script, job_comment, owner_of, quote_option
from fsdpctl.backends.slurm.profile_keys import SlurmSection
from fsdpctl.contract.codec import decode, encode
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import UsageError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_job, load_profile, parse_profile

SITE = SubmitHost("llm300m-k3f9", "/runs/llm300m-k3f9", "/home/me", "/usr/bin/python3", ())


def plan(job: tuple[str, ...] = (), **backend: Any) -> LaunchPlan:
    profile = load_profile("slurm-h100").model_dump(mode="json")
    profile["backend"] = {"kind": "slurm", **backend}
    return build_plan(parse_profile(json.dumps(profile), "p.yaml"), load_job("llm300m", ["nodes=2", *job]), SITE)


def options(plan: LaunchPlan) -> list[str]:
    lines = batch_script(plan).splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]


def test_the_whole_script_of_the_bundled_profile() -> None:
    script = batch_script(build_plan(load_profile("slurm-h100"), load_job("llm300m", ["nodes=2"]), SITE))
    assert script == (
        """\
#!/bin/bash
#SBATCH --job-name=llm300m
#SBATCH --comment=fsdpctl:llm300m-k3f9
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=3-00:00:00
#SBATCH --signal=B:USR2@150
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=/runs/llm300m-k3f9/batch.log
#SBATCH --chdir=/runs/llm300m-k3f9
#SBATCH --partition=gpu
#SBATCH --gpus-per-node=8
#SBATCH --exclusive

set -e
umask 077
test -d /runs/llm300m-k3f9/code || { echo 'the code of the run is missing:' /runs/llm300m-k3f9/code >&2; exit 1; }
export FSDPCTL_RUN_ID=llm300m-k3f9
export PYTHONPATH=/runs/llm300m-k3f9/code
export PYTHONSAFEPATH=1
exec python3 -m fsdpctl.backends.slurm.job /runs/llm300m-k3f9
"""
    )


@pytest.mark.parametrize(
    ("backend", "option"),
    [
        ({"partition": "a,b"}, "--partition=a,b"),
        ({"account": "my-project"}, "--account=my-project"),
        ({"qos": "high"}, "--qos=high"),
        ({"constraint": "h100&ib"}, '--constraint="h100&ib"'),
        ({"reservation": "r 1"}, '--reservation="r 1"'),
        ({"exclude": "node[01-03,7]"}, "--exclude=node[01-03,7]"),
        ({"nodelist": "node[1-4]"}, "--nodelist=node[1-4]"),
        ({"dependency": "afterok:12?singleton"}, '--dependency="afterok:12?singleton"'),
        ({"gres": "gpu:h100:8"}, "--gres=gpu:h100:8"),
        ({"cpus_per_task": 96}, "--cpus-per-task=96"),
        ({"mem": "0"}, "--mem=0"),
        ({"comment": "for the paper"}, '--comment="fsdpctl:llm300m-k3f9 for the paper"'),
        ({"exclusive": True}, "--exclusive"),
        ({"max_requeues": 0}, "--no-requeue"),
        ({"extra": ["--mail-type=END", "--licenses=a#b"]}, '--licenses="a#b"'),
    ],
)
def test_every_key_reaches_the_script(backend: dict[str, Any], option: str) -> None:
    given = options(plan(**backend))
    assert given.count(option) == 1
    assert given != options(plan())


def test_gres_replaces_gpus_per_node() -> None:
    assert "--gpus-per-node=8" in options(plan())
    assert not any("gpus-per-node" in option for option in options(plan(gres="gpu:8")))
    assert "--gpus-per-node=8" in options(plan(gres="nvme:1")), "it requests no GPUs"


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [("gpu", 1), ("gpu:a100", 1), ("gpu:1g.5gb:2", 2), ("gres/gpu:4", 4), ("nvme:1,gpu:a100:2,gpu:h100:2", 4)],
)
def test_gres_alone_counts_as_gpus(gres: str, gpus: int) -> None:
    profile = parse_profile(f"name: p\nbackend: {{kind: slurm, gres: '{gres}'}}\n", "p.yaml")
    planned = build_plan(profile, load_job("llm300m", ["trainer.mesh.shard=1"]), SITE)
    assert (planned.device, planned.procs_per_node) == ("cuda", gpus)
    assert f"--gres={gres}" in options(planned)


def test_gres_that_differs_from_gpus_per_node_is_refused_with_the_profile() -> None:
    text = "name: p\ngpus_per_node: 8\nbackend: {kind: slurm, gres: 'gpu:a100:4'}\n"
    with pytest.raises(UsageError, match=r"gpu:a100:4 requests 4 GPUs a node, gpus_per_node is 8"):
        parse_profile(text, "p.yaml")


def test_a_job_without_its_code_names_it(tmp_path: Path) -> None:
    script = batch_script(replace(plan(), run_dir=str(tmp_path)))
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"the code of the run is missing: {tmp_path}/code\n")


def test_a_long_job_on_a_short_partition_asks_for_its_limit() -> None:
    assert "--time=3-00:00:00" in options(plan())
    assert "--time=0-04:00:00" in options(plan(time="4h"))
    assert "--time=0-01:30:05" in options(plan(("time_limit=1h30m5s",), time="4h"))


def test_a_grace_longer_than_an_allocation_is_refused() -> None:
    with pytest.raises(UsageError, match="grace: 2m to save do not fit into allocations of 1m30s"):
        plan(time="90s")


def test_an_allocation_that_ends_with_the_request_to_stop_is_refused() -> None:
    """The signal comes 30 s earlier than the grace of 2 minutes before the end."""
    reason = "2m30s leave no time for a step: the stop comes 2m30s before"
    with pytest.raises(UsageError, match=f"grace: {reason}"):
        plan(time="150s")
    with pytest.raises(UsageError, match=f"time_limit: {reason}"):
        plan(("time_limit=150s",), time="4h")
    assert "--time=0-00:02:31" in options(plan(("time_limit=151s",)))


def test_a_long_grace_fits_the_signal_option() -> None:
    assert "--signal=B:USR2@65535" in options(plan(("grace=20h",)))


@pytest.mark.parametrize("extra", ["--job-name=x", "--comm=x", "--output=x", "--no-req", "--array=1-9", "--wrap=true"])
def test_what_fsdpctl_sets_cannot_be_given(extra: str) -> None:
    with pytest.raises(UsageError, match="is set by fsdpctl"):
        plan(extra=[extra])


@pytest.mark.parametrize("extra", ["--het-group=1", "--clusters=a,b", "--cluster=a"])
def test_what_makes_another_kind_of_job_cannot_be_given(extra: str) -> None:
    with pytest.raises(UsageError, match="cannot be set: a run is one job"):
        plan(extra=[extra])


@pytest.mark.parametrize("extra", ["-J x", "--", "--Mail", "x", "--a\nb", "--mail-type=\x1b", "--a=\u2028x"])
def test_an_extra_option_is_one_option(extra: str) -> None:
    with pytest.raises(UsageError, match=r"backend\.extra"):
        plan(extra=[extra])


TEXT_KEYS = [name for name, field in SlurmSection.model_fields.items() if "Annotated[str" in str(field.annotation)]


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\0b", "a\x1bb", "a\u2028b"])
def test_no_key_of_the_profile_brings_a_second_line(value: str) -> None:
    container = {"runtime": "pyxis", "image": "x"}
    given: list[dict[str, Any]] = [{key: value} for key in TEXT_KEYS if key != "extra"]
    given += [{"extra": [f"--mail-user={value}"]}, {"container": {**container, "image": value}}]
    given += [{"container": {**container, "mounts": [f"/{value}"]}}, {"container": {**container, "python": value}}]
    given += [{"container": {**container, "options": [f"--a={value}"]}}]
    assert len(given) >= 14
    for backend in given:
        with pytest.raises(UsageError, match="control character"):
            plan(**backend)


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\0b", "a\x1bb"])
@pytest.mark.parametrize("field", ["run_dir", "python", "setup", "options"])
def test_no_control_character_reaches_the_script(field: str, value: str) -> None:
    """Even if a validator should let one through."""
    good = plan()
    assert good.slurm is not None
    bad = {
        "run_dir": replace(good, run_dir=value),
        "python": replace(good, slurm=replace(good.slurm, python=value)),
        "setup": replace(good, setup=(value,)),
        "options": replace(good, slurm=replace(good.slurm, options=(value,))),
    }[field]
    with pytest.raises(UsageError):
        batch_script(bad)


def test_a_hostile_run_directory_stays_one_word(tmp_path: Path) -> None:
    """Run the script's own lines in a real bash: `exec` gets exactly the path, and nothing in it runs."""
    hostile = f"{tmp_path}/$(touch canary) '\" ;&|*?~!#% x"
    (Path(hostile) / "code").mkdir(parents=True)
    recorder = tmp_path / "python 3"
    recorder.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nprint(json.dumps([sys.argv[1:], os.environ['PYTHONPATH']]))"
    )
    recorder.chmod(0o700)
    good = plan()
    assert good.slurm is not None
    script = batch_script(replace(good, run_dir=hostile, slurm=replace(good.slurm, python=str(recorder))))
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout) == [["-m", "fsdpctl.backends.slurm.job", hostile], f"{hostile}/code"]
    assert not (tmp_path / "canary").exists()


def test_a_path_that_slurm_cannot_write_to_is_refused() -> None:
    with pytest.raises(UsageError, match="backslash"):
        batch_script(replace(plan(), run_dir="/runs/a\\b"))
    assert "--output=/runs/a%%b/batch.log" in options(replace(plan(), run_dir="/runs/a%b"))


def test_quoting_leaves_one_shell_like_word() -> None:
    text = "--comment=a b'c\"d\\e#f$g`h\u00e9"
    assert shlex.split(quote_option(text)) == [text]


def test_a_comment_identifies_its_run_whatever_follows() -> None:
    for text in ("", "mine", "fsdpctl:other-run", "a | b"):
        assert owner_of(job_comment("llm-aaaa", text), "7") == "llm-aaaa"
        assert owner_of(job_comment("lr-aaaa", text), "7_2") == "lr-aaaa/2"
    assert owner_of("my fsdpctl:llm-aaaa", "7") == owner_of("", "7_2") == ""


def test_the_plan_survives_its_file() -> None:
    given = plan(extra=["--mail-type=END"], container={"runtime": "apptainer", "image": "x.sif"})
    assert decode(LaunchPlan, json.loads(json.dumps(encode(given)))) == given


def test_modules_are_loaded_after_setup_which_may_define_them() -> None:
    profile = load_profile("slurm-h100").model_copy(update={"setup": ("source /x",), "modules": ("cuda/13", "a;b")})
    planned = build_plan(profile, load_job("llm300m", ["nodes=2"]), SITE)
    assert "\nsource /x\nmodule load cuda/13 'a;b'\nexport " in batch_script(planned)


def test_the_batch_script_stays_outside_of_the_container() -> None:
    planned = plan(container={"runtime": "pyxis", "image": "nvcr.io#nvidia/pytorch:26.01-py3", "python": "/opt/python"})
    assert "exec python3 -m fsdpctl.backends.slurm.job" in batch_script(planned)
    assert planned.python == "/opt/python"


@pytest.mark.parametrize("mount", ["data", "/a,/b", "/a:b", "/a:/b:ro:x", "--x", ""])
def test_a_mount_is_one_path_or_two(mount: str) -> None:
    with pytest.raises(UsageError, match="a mount is written"):
        plan(container={"runtime": "pyxis", "image": "x", "mounts": [mount]})


def test_a_runs_root_that_cannot_be_mounted_is_refused() -> None:
    profile = load_profile("slurm-h100").model_dump(mode="json")
    profile["backend"]["container"] = {"runtime": "pyxis", "image": "x"}
    with pytest.raises(UsageError, match="cannot be mounted"):
        build_plan(
            parse_profile(json.dumps(profile), "p.yaml"), load_job("llm300m"), replace(SITE, run_dir="/runs:1/llm")
        )
