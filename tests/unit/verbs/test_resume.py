from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fsdpctl.contract import State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.formats.dataset import BYTES, FORMAT, INDEX_NAME, Index, Shard
from fsdpctl.contract.formats.manifest import MANIFEST_FORMAT, Manifest, write_manifest
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.contract.records import Outcome, ProcessIdentity
from fsdpctl.errors import UsageError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.record import NodeKind, RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create, locked, read_record
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.verbs.refusals import is_nothing_left
from fsdpctl.verbs.resume import Changes, predict_resumed, resume
from fsdpctl.verbs.submit import create_run, read_request, write_specs


def save(run: RunPaths, step: int, save_s: float = 0.0) -> None:
    directory = run.checkpoints / checkpoint_name(step)
    directory.mkdir(parents=True)
    write_manifest(directory, Manifest(MANIFEST_FORMAT, step, 1, 1, (1, 1), {}, "none", "2.13", 1e9, {}, save_s))


def ended(state: State, steps: int, *saved: int) -> RunPaths:
    """Return a run of `steps` that has ended after its last save."""
    request = read_request("llm-tiny", "local", [f"trainer.steps={steps}"])

    def fill(run: RunPaths) -> None:
        write_specs(run, request)
        run.code.mkdir()
        for step in saved:
            save(run, step)
        attempt = run.attempt(1)
        attempt.root.mkdir(parents=True)
        status = "finished" if state is State.SUCCEEDED else "stopped"
        write_json(attempt.outcome, Outcome(status, saved[-1], checkpoint_name(saved[-1])))
        write_json(attempt.verdict, Verdict(state, "it ended"))

    return create(default_runs_root(), RunRecord.new("r-aaaa", "r", "local", "local", 1.0, 1), fill)


REFUSED = [
    (
        State.SUCCEEDED,
        [],
        None,
        "has finished all 40 steps",
        "--set trainer.steps=80; or go back by --step to 10, 20, 30",
    ),
    (State.SUCCEEDED, ["trainer.steps=40"], None, "has finished all 40 steps", "--set trainer.steps=80; or go back"),
    (State.SUCCEEDED, ["trainer.steps=30"], None, "continues from step 40, so with trainer.steps=30", "to 10, 20"),
    (
        State.STOPPED,
        ["trainer.steps=40"],
        None,
        "continues from step 40, so with trainer.steps=40",
        "=80; or go back by",
    ),
    (
        State.STOPPED,
        ["trainer.steps=15"],
        None,
        "continues from step 40, so with trainer.steps=15 nothing is left",
        "=80",
    ),
    (
        State.STOPPED,
        ["trainer.steps=20"],
        30,
        "continues from step 30, so with trainer.steps=20 nothing",
        "=60; or go back",
    ),
    (State.SUCCEEDED, [], 8, "has no checkpoint of step 8; it has 10, 20, 30, 40", ""),
    (State.SUCCEEDED, [], 50, "has no checkpoint of step 50; it has 10, 20, 30, 40", ""),
    (State.STOPPED, ["trainer.steps=17"], 8, "has no checkpoint of step 8; it has 10, 20, 30, 40", ""),
]


@pytest.mark.parametrize(("state", "overrides", "step", "reason", "hint"), REFUSED)
def test_a_resume_with_nothing_to_do_is_refused_and_changes_nothing(
    state: State, overrides: list[str], step: int | None, reason: str, hint: str
) -> None:
    run = ended(state, 40 if state is State.SUCCEEDED else 120, 10, 20, 30, 40)
    with locked(run):  # which leaves a file of its own
        before = {path: path.read_bytes() for path in run.root.rglob("*") if path.is_file()}
    with pytest.raises(UsageError) as refused:
        resume(run, Changes(overrides, step=step))
    assert refused.value.message.startswith(f"run r-aaaa {reason}")
    assert hint in (refused.value.hint or "")
    assert {path: path.read_bytes() for path in run.root.rglob("*") if path.is_file()} == before


def test_the_step_that_a_resume_goes_back_to_is_recorded() -> None:
    run = ended(State.STOPPED, 120, 10, 20, 30)
    for step in (20, None):
        resume(run, Changes(step=step), start=lambda *_: None)
        assert read_record(run).submissions[-1].step == step


def test_each_submission_records_its_nodes_and_their_price(tmp_path: Path) -> None:
    submitted = create_run(read_request("llm-tiny", "local", ["procs_per_node=2"]))
    assert [one.node for one in read_record(submitted).submissions] == [NodeKind(2, "cpu")]
    run = ended(State.STOPPED, 120, 10)
    profile = tmp_path / "gpus.yaml"
    profile.write_text("name: gpus\nbackend: slurm\ngpus_per_node: 4\nprice_per_gpu_hour: 2.5\n")
    resume(run, Changes(profile=str(profile)), start=lambda *_: None)
    assert [one.node for one in read_record(run).submissions] == [None, NodeKind(4, "cuda", 2.5)]


def test_other_data_than_that_of_the_checkpoint_is_refused(tmp_path: Path) -> None:
    run = ended(State.STOPPED, 120, 10)
    for name, fingerprint in (("same", "none"), ("other", "some")):
        (tmp_path / name).mkdir()
        splits = [(Shard(f"{split}-00000", 1000, 1, "", ""),) for split in ("train", "val")]
        index = Index(FORMAT, "a test", BYTES, 0, fingerprint, "uint16", 256, splits[0], splits[1], 0.0)
        write_json(tmp_path / name / INDEX_NAME, index)
        for file in (file for (shard,) in splits for file in shard.files("uint16")):
            (tmp_path / name / file.name).write_bytes(bytes(file.num_bytes))
    stored = run.job.read_bytes()
    with pytest.raises(UsageError, match=r"fingerprint none, but that in trainer\.data\.source, .*/other, has some"):
        resume(run, Changes([f"trainer.data.source={tmp_path}/other"]))
    with pytest.raises(UsageError, match="nothing is left to train"):
        resume(
            run, Changes([f"trainer.data.source={tmp_path}/same", "trainer.steps=10", "trainer.optim.warmup_steps=0"])
        )
    assert run.job.read_bytes() == stored


@pytest.mark.parametrize(
    ("begin", "steps", "is_only_evaluated", "nothing"),
    [
        (0, 40, False, False),
        (39, 40, False, False),
        (40, 40, False, True),
        (40, 40, True, False),
        (41, 40, True, True),
    ],
)
def test_only_an_evaluation_is_left_after_the_last_step(
    begin: int, steps: int, is_only_evaluated: bool, nothing: bool
) -> None:
    assert is_nothing_left(begin, steps, is_only_evaluated) is nothing


@pytest.mark.parametrize(("save_s", "warns"), [(0.0, False), (40.0, False), (70.0, True)])
def test_a_grace_that_is_too_short_for_the_newest_checkpoint_is_reported(
    save_s: float, warns: bool, tmp_path: Path
) -> None:
    run = RunPaths(tmp_path)
    site = SubmitHost("r", str(run.root), str(run.root), sys.executable, ())
    write_json(run.plan, build_plan(load_profile("local"), load_job("llm-tiny", ["grace=60s"]), site))
    assert predict_resumed(run) == [], "nothing saved yet"
    for step, took in ((4, 500.0), (8, save_s)):
        save(run, step, took)
    warning = "step-00000008 took 70 s to save: a grace of 1m is too short"
    assert any(warning in line for line in predict_resumed(run)) is warns


@pytest.mark.parametrize(("limit", "warns"), [("2m", False), ("100s", False), ("99s", True)])
def test_a_time_limit_that_leaves_no_step_is_reported(limit: str, warns: bool, tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    site = SubmitHost("r", str(run.root), str(run.root), sys.executable, ())
    job = load_job("llm-tiny", ["grace=60s", f"time_limit={limit}"])
    write_json(run.plan, build_plan(load_profile("local"), job, site))
    run.metrics.write_text('{"step": 1, "loss": 2.0, "attempt": 2, "time": 140.0}\n')
    assert predict_resumed(run) == [], "it is not known when that attempt began"
    run.attempt(2).node(0).root.mkdir(parents=True)
    write_json(run.attempt(2).node(0).agent, ProcessIdentity("h", 7, 7, "boot", started=100.0))
    warning = "an attempt of this run took 40 s to its first step: a time limit of 1m39s less the grace of 1m leaves"
    assert [line.startswith(warning) for line in predict_resumed(run)] == ([True] if warns else [])


def test_a_profile_whose_hosts_have_disks_of_their_own_cannot_continue_a_run_of_a_shared_one(tmp_path: Path) -> None:
    run = ended(State.STOPPED, 120, 10)
    private = "backend: {kind: ssh, shared_filesystem: false}\nruns_root: /var/tmp/runs\n"
    (tmp_path / "private.yaml").write_text(f"name: private\n{private}nodes: [{{id: a, address: a}}]\n")
    before = {path: path.read_bytes() for path in run.root.rglob("*") if path.is_file() and path != run.lock}
    with pytest.raises(UsageError, match="r-aaaa cannot continue under profile private"):
        resume(run, Changes(profile=str(tmp_path / "private.yaml")))
    with pytest.raises(UsageError, match="is not copied without --update-code"):
        resume(run, Changes(code_dir=tmp_path))
    assert {path: path.read_bytes() for path in run.root.rglob("*") if path.is_file() and path != run.lock} == before


def test_a_change_that_cannot_fit_the_gpus_is_refused_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path))
    run = ended(State.STOPPED, 40, 10)
    profile = tmp_path / "small.yaml"
    profile.write_text("name: small\nbackend: slurm\ngpus_per_node: 1\ngpu: t4\n")
    before = run.job.read_bytes()
    huge = ["trainer.batch={sequences: 65536, micro_batch: 65536}"]
    with pytest.raises(UsageError, match=r"needs about .* GiB of each GPU, and a t4 \(profile small\) has"):
        resume(run, Changes(huge, profile=str(profile)))
    assert run.job.read_bytes() == before
