"""Files of other programs that are given as a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.errors import UsageError
from fsdpctl.verbs.estimate import estimate_job
from fsdpctl.verbs.lint import check_job
from fsdpctl.verbs.submit import read_request

SCRIPT = "#!/bin/bash\n#SBATCH -N 2\nsrun torchrun train.py\n"
FOREIGN = {
    "run.sbatch": SCRIPT,
    "ds.json": '{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}}',
    "accelerate.yaml": "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_machines: 2\n",
}
WRONG_JOBS = {
    "key.yaml": "name: a\nbatch_size: 2\nentrypoint: {script: a.py}\n",
    "syntax.yaml": "# torchrun\nname: [\n",
    "empty.yaml": "name: a\n",
}


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path / "home"))


def hint_of(name: str, text: str) -> set[str | None]:
    Path(name).write_text(text)
    hints = set()
    for read in (check_job, lambda job: read_request(job, None), lambda job: estimate_job(job, None)):
        with pytest.raises(UsageError) as caught:
            read(f"./{name}")
        hints.add(caught.value.hint)
    return hints


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_another_program_gets_the_hint_to_import_it(name: str) -> None:
    (hint,) = hint_of(name, FOREIGN[name])
    assert hint is not None
    assert f"`fsdpctl jobs import ./{name} -o FILE`" in hint


@pytest.mark.parametrize("name", WRONG_JOBS)
def test_a_job_with_problems_gets_none(name: str) -> None:
    assert hint_of(name, WRONG_JOBS[name]) == {None}
