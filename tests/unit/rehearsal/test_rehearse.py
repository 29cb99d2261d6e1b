"""What a rehearsal refuses before any rank starts, and what it takes of the profile of a cluster."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.cli.rehearsal import describe_rehearsal
from fsdpctl.contract.records import RankError
from fsdpctl.errors import RunFailed, UsageError
from fsdpctl.own_scripts.printed_steps import find_printed_step
from fsdpctl.rehearsal.failure import describe_error
from fsdpctl.rehearsal.rehearse import Rehearsal, choose_nodes, rehearse_here
from fsdpctl.rehearsal.signs import Sign
from fsdpctl.specs.load import load_job, load_profile, parse_job, parse_profile
from fsdpctl.verbs.submit import Request, prepare

SLURM = f"""\
name: c
backend: {{kind: slurm}}
gpus_per_node: 8
python: {sys.executable}
runs_root: /shared/runs
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def request_of(project: Path, script: str, profile: str | None = None) -> Request:
    (project / "train.py").write_text(script)
    job = parse_job("name: mine\nentrypoint: {script: train.py}\n", "j.yaml")
    return prepare(load_profile("local") if profile is None else parse_profile(profile, "c.yaml"), job, run_id="r")


def test_missing_modules_are_named_with_their_lines_and_nothing_starts(project: Path) -> None:
    request = request_of(project, "import json\nimport helper, torch_not_there\n")
    (project / "helper.py").write_text("\nfrom not_there.inner import x\n")
    with pytest.raises(RunFailed) as error:
        rehearse_here(request, print)
    assert error.value.message.splitlines()[1:] == [
        f"train.py:2: import torch_not_there: {sys.executable} has no module torch_not_there",
        f"helper.py:2: import not_there.inner: {sys.executable} has no module not_there",
    ]
    assert not Path(request.plan.run_dir).parent.exists()


def test_without_a_gpu_a_job_for_gpus_has_its_modules_looked_for_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(project))  # no nvidia-smi
    assert rehearse_here(request_of(project, "import json\n", SLURM), print) == Rehearsal(Sign.IMPORTS, 0, 0.0)
    with pytest.raises(RunFailed, match=r"train\.py:1: import not_there"):
        rehearse_here(request_of(project, "import not_there\n", SLURM), print)


def test_a_script_that_finds_its_modules_itself_is_not_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))  # no nvidia-smi
    script = "import sys\nsys.path.insert(0, 'lib')\nimport not_here\n"
    assert rehearse_here(request_of(project, script, SLURM), print).sign is Sign.IMPORTS


def test_a_node_of_one_rank_is_rehearsed_as_one(project: Path) -> None:
    plan = request_of(project, "import json\n").plan
    alone = replace(plan, procs_per_node=1)
    assert [choose_nodes(plan, 2, 2), choose_nodes(alone, 2, 2), choose_nodes(alone, 2, 1)] == [1, 2, 1]


def test_the_bundled_trainer_has_nothing_to_rehearse(project: Path) -> None:
    with pytest.raises(UsageError, match="no script of its own to rehearse"):
        rehearse_here(prepare(load_profile("local"), load_job("llm-tiny"), run_id="r"), print)


def test_the_users_line_comes_first() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "/r/code/fsdpctl/rank.py", line 1, in main\n    _run(argv)\n'
        '  File "/r/src/a.py", line 3, in <module>\n    main()\nValueError: no\n'
    )
    error = RankError(0, 0, 0.0, "ValueError: no", trace, place="/r/src/a.py:3 in <module>", kinds=("ValueError",))
    assert describe_error(error, "/r/src", ["out"]).splitlines() == [
        "a.py:3 in <module>: ValueError: no",
        '  File "a.py", line 3, in <module>',
        "    main()",
    ]
    left = RankError(0, 0, 0.0, "SystemExit: 2", trace, place="/r/src/a.py:3 in <module>", kinds=("SystemExit",))
    assert describe_error(left, "/r/src", ["usage: a.py"]).splitlines() == [
        "a.py:3 in <module>: SystemExit: 2",
        "usage: a.py",
    ]


def test_the_report_names_what_was_not_shown() -> None:
    assert describe_rehearsal(Rehearsal(Sign.STEP, 2, 6.2, 1)) == "rehearsal: 2 ranks finished step 1 after 6 s"
    limit = describe_rehearsal(Rehearsal(Sign.TIME, 2, 60.0, seen=("rank 1 on a is at train.py:5 in main",)))
    assert "no step was reported" in limit and limit.splitlines()[1:] == ["  rank 1 on a is at train.py:5 in main"]
    printed = describe_rehearsal(Rehearsal(Sign.PRINTED, 2, 6.0, printed=find_printed_step(["step: 3 loss: 2.1"])))
    assert "rank 0 of 2 printed a step after 6 s: step: 3 loss: 2.1\n" in printed
    key = printed.splitlines()[-1]
    job = parse_job(f"name: mine\nentrypoint: {{script: train.py}}\n{key}\n", "j.yaml")
    assert job.progress_regex is not None and re.search(job.progress_regex, "step: 12 loss: 1.9")
    assert "no rank was started" in describe_rehearsal(Rehearsal(Sign.IMPORTS, 0, 0.0))
