"""Training on data in object storage: a real S3 server, and the same numbers to the bit."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from fsdpctl.remote_data.location import Location
from tests.testbed.s3 import SECRET, Bucket
from tests.train import faults
from tests.train.ranks import Config, start, train
from tests.train.test_resume import assert_same_run


@pytest.fixture
def remote(bucket: Bucket, data_dir: Path, config: Config) -> Config:
    location = Location(bucket.url)
    for path in data_dir.iterdir():
        location.write(path.name, path)
    return {**config, "data": {"source": bucket.url}}


def test_a_killed_run_equals_one_on_local_data(remote: Config, straight: Path, tmp_path: Path) -> None:
    """The cache is damaged and a file removed while no rank runs."""
    run, cache = tmp_path / "run", Path(os.environ["FSDPCTL_DATA_CACHE"])
    often = {**remote, "checkpoint": {"every_steps": 1, "keep": 2}}
    ranks = start(run, often, procs_per_node=2, fault=faults.slow_steps, fault_args=(0.1,))
    ranks.wait_for_step(3)
    ranks.kill()
    [tokens] = cache.glob("*/train-00000.bin")
    tokens.write_bytes(b"\1" * tokens.stat().st_size)
    tokens.with_name("val-00000.bin").unlink()
    train(run, remote, procs_per_node=2)
    assert_same_run(run, straight)
    for path in (path for path in run.rglob("*") if path.is_file()):
        assert SECRET.encode() not in path.read_bytes(), path


def test_data_that_cannot_be_read_is_an_error_of_the_configuration(remote: Config, tmp_path: Path) -> None:
    shutil.rmtree(os.environ["FSDPCTL_DATA_CACHE"])
    ranks = start(tmp_path / "run", {**remote, "data": {"source": f"{remote['data']['source']}/none"}})
    assert ranks.wait() == [2]
    assert (
        "train: data.source: s3://corpora/" in ranks.log() and "/none/index.json: there is no such file" in ranks.log()
    )
    assert "Traceback" not in ranks.log()
