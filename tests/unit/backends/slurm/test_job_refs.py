from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.batch_script import batch_script
from fsdpctl.backends.slurm.job_refs import SlurmRef, append_ref, read_job_ids, read_ref, update_ref
from fsdpctl.backends.slurm.lookup import find_after_job
from fsdpctl.backends.slurm.preview import preview
from fsdpctl.contract import State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import create_once
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import AfterRun, LaunchPlan
from fsdpctl.errors import RefusedError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import create
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import parse_job, parse_profile

RECORD = RunRecord.new("other-aaaa", "other", "p", "slurm", 1.0, 1)
SLURM = "name: p\nbackend: slurm\ngpus_per_node: 1\nruns_root: /shared\n"


def plan_of(root: Path, after: RunPaths | None = None) -> LaunchPlan:
    host = SubmitHost("r", str(root / "r"), "/", "python3", ())
    job = parse_job("name: j\nentrypoint: {script: a.py}\n", "j.yaml")
    plan = build_plan(parse_profile(SLURM, "p.yaml"), job, host)
    return replace(plan, after=AfterRun(after.root.name, str(after.root)) if after is not None else None)


def test_the_newest_reference_counts_and_older_ones_stay(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert read_ref(run) is None
    append_ref(run, SlurmRef(1, 100.0))
    update_ref(run, job_id="7", final=State.CANCELLED, reason="cancelled")
    append_ref(run, SlurmRef(2, 200.0))
    assert read_ref(run) == SlurmRef(2, 200.0)
    assert '"job_id": "7"' in run.slurm.read_text()


def test_a_job_whose_submit_was_killed_is_known_by_its_claim(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    append_ref(run, SlurmRef(1, 100.0, "7"))
    append_ref(run, SlurmRef(2, 200.0, array_task="lr-cccc/1"))
    assert read_job_ids(run) == ["7"]
    create_once(run.job_claim(2), "16_1")
    assert read_job_ids(run) == ["7", "16_1"]
    update_ref(run, final=State.CANCELLED)
    assert '"job_id": "16_1"' in run.slurm.read_text()


def test_a_run_waits_for_the_newest_job_of_another_until_that_has_succeeded(tmp_path: Path) -> None:
    other = create(tmp_path, RECORD, lambda run: None)
    assert find_after_job(plan_of(tmp_path)) is None
    waiting = plan_of(tmp_path, other)
    with pytest.raises(RefusedError, match="cannot wait for run other-aaaa: it has no Slurm job of its own"):
        find_after_job(waiting)
    append_ref(other, SlurmRef(1, 100.0, "7"))
    assert find_after_job(waiting) == "7"
    assert "#SBATCH --dependency=afterok:7\n#SBATCH --kill-on-invalid-dep=yes\n" in batch_script(waiting, "7")
    assert waiting.slurm is not None
    own = replace(waiting, slurm=replace(waiting.slurm, options=("--dependency=singleton",)))
    with pytest.raises(RefusedError, match="the profile has a dependency of its own"):
        find_after_job(own)
    other.attempt(1).root.mkdir(parents=True)
    write_json(other.attempt(1).verdict, Verdict(State.SUCCEEDED, "finished"))
    assert find_after_job(waiting) is None


@pytest.mark.parametrize(
    ("ref", "submissions"),
    [
        (SlurmRef(1, 100.0, "7", is_interactive=True), 1),
        (SlurmRef(1, 100.0, "7"), 2),  # it was resumed on another backend
    ],
)
def test_slurm_does_not_wait_for_a_run_by_a_job_that_is_not_its_own(
    ref: SlurmRef, submissions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job of a hold ends later than its runs, and often by a cancel."""
    record = replace(RECORD, submissions=RECORD.submissions * submissions)
    other = create(tmp_path, record, lambda run: None)
    append_ref(other, ref)
    waiting = plan_of(tmp_path, other)
    with pytest.raises(RefusedError, match="cannot wait for run other-aaaa: it has no Slurm job of its own"):
        find_after_job(waiting)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert preview(waiting).keys() == {"srun"}, "in an allocation its supervisor waits"
