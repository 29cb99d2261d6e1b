from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fsdpctl.contract.checkpoint import MANIFEST_FORMAT, Manifest, write_manifest
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.plan import Site, build_plan
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.verbs.resume import foresee_resumed


@pytest.mark.parametrize(("save_s", "warns"), [(0.0, False), (40.0, False), (70.0, True)])
def test_a_grace_that_the_newest_checkpoint_did_not_fit_into_is_told(
    save_s: float, warns: bool, tmp_path: Path
) -> None:
    run = RunPaths(tmp_path)
    site = Site("r", str(run.root), str(run.root), sys.executable, ())
    write_json(run.plan, build_plan(load_profile("local"), load_job("llm-tiny", ["grace=60s"]), site))
    assert foresee_resumed(run) == [], "nothing saved yet"
    for step, took in ((4, 500.0), (8, save_s)):
        directory = run.checkpoints / checkpoint_name(step)
        directory.mkdir(parents=True)
        write_manifest(directory, Manifest(MANIFEST_FORMAT, step, 1, 1, (1, 1), {}, "none", "2.13", 1e9, {}, took))
    told = "step-00000008 took 70 s to save: a grace of 1m is too short"
    assert any(told in said for said in foresee_resumed(run)) is warns
