"""`fsdpctl jobs check` and `jobs rules`, and what `submit` logs of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.cli.jobs_check import check, log_findings, rules
from fsdpctl.cli.submit import submit
from fsdpctl.errors import RunFailed, UsageError
from fsdpctl.specs.lint import RuleId
from fsdpctl.verbs.lint import check_job

JOB = """\
name: mine
nodes: 2
entrypoint: {script: train.py}
time_limit: 2h
env:
  CUDA_LAUNCH_BLOCKING: 1
"""
PROFILE = """\
name: cluster
backend: {kind: slurm, exclusive: true}
gpus_per_node: 8
runs_root: /shared/runs
network:
  nccl:
    NCCL_IB_DISABLE: 1
    NCCL_ALGO: Ring
  ib_hcas: [mlx5_0]
"""


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path / "home"))
    Path("job.yaml").write_text(JOB)
    Path("profile.yaml").write_text(PROFILE)


def test_findings_have_the_line_of_their_key(capsys: pytest.CaptureFixture[str]) -> None:
    check(["job.yaml"], profile="profile.yaml")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "job.yaml: ok, 2 nodes, train.py; on profile profile.yaml: 2 warnings, 1 piece of advice"
    assert [line for line in lines if not line.startswith("  ")][1:] == [
        "warning: profile.yaml:7: network.nccl.NCCL_IB_DISABLE: NCCL uses TCP between the nodes, though the profile has"
        " InfiniBand [ib-disabled]",
        "warning: job.yaml:6: env.CUDA_LAUNCH_BLOCKING: CUDA_LAUNCH_BLOCKING is on: the host waits for every kernel"
        " [blocking-launches]",
        "advice: profile.yaml:8: network.nccl.NCCL_ALGO: NCCL_ALGO is Ring for every message size [forced-algorithm]",
    ]
    assert [line.split()[0] for line in lines if line.startswith("  ")] == ["why:", "change:", "see:"] * 3


def test_a_key_that_is_not_written_has_the_line_around_it() -> None:
    Path("profile.yaml").write_text("name: c\ngpus_per_node: 8\nbackend:\n  kind: slurm\n")
    findings = check_job("job.yaml", ["restarts=0"], "profile.yaml").findings
    assert [(found.location, found.finding.key) for found in findings[1:]] == [
        ("profile.yaml:3", "backend.cpus_per_task")
    ]
    findings = check_job("job.yaml", ["time_limit=8h"], "profile.yaml").findings
    assert (findings[-1].location, findings[-1].finding.key) == ("job.yaml:1", "restarts")
    findings = check_job("job.yaml", ["time_limit=8h", "restarts=0"], "profile.yaml").findings
    assert findings[-1].location == "--set restarts=0"


def test_json_has_values_and_strict_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunFailed) as caught:
        check(["job.yaml"], profile="profile.yaml", strict=True, as_json=True)
    assert (caught.value.exit_code, caught.value.message) == (1, "3 findings")
    (checked,) = json.loads(capsys.readouterr().out)
    assert (checked["ok"], checked["problems"], checked["profile"]) == (True, [], "profile.yaml")
    first = checked["findings"][0]
    assert (first["rule"], first["severity"], first["location"]) == ("ib-disabled", "warning", "profile.yaml:7")
    assert first["source"].startswith("https://docs.nvidia.com/")
    check(["llm300m"], strict=True)
    output = capsys.readouterr()
    assert output.out == "llm300m: ok, 1 node, 303,080,448 parameters, 20,000 steps\n"
    assert output.err == "hint: checked on profile local; -p applies the rules for the GPUs and network of a cluster\n"


def test_a_job_that_does_not_fit_its_gpus_is_a_finding() -> None:
    with pytest.raises(RunFailed) as caught:
        check(["llm7b"], profile="slurm-h100", set_=["trainer.mesh.strategy=DDP"], strict=True)
    assert caught.value.message == "2 findings"
    found, _ = check_job("llm7b", ["trainer.mesh.strategy=DDP"], "slurm-h100").findings
    assert (found.location, found.finding.rule.id) == ("--set trainer.mesh.strategy=DDP", RuleId.DOES_NOT_FIT)
    assert "and a h100-80 has 79.1; it fits with trainer.mesh.strategy=SHARD_GRAD_OP" in found.finding.text


def test_recomputing_that_the_estimate_does_not_need_is_a_finding() -> None:
    findings = check_job("llm7b", ["trainer.memory.recompute=full"], "slurm-h100").findings
    (text,) = (one.finding.text for one in findings if one.finding.rule.id is RuleId.RECOMPUTE_NOT_NEEDED)
    assert text.startswith("without recomputing, a GPU needs ")
    assert text.endswith(" of the speed")


def test_a_job_that_does_not_fit_the_default_profile_is_still_good(capsys: pytest.CaptureFixture[str]) -> None:
    check(["llm-tiny"], nodes=3)
    output = capsys.readouterr()
    assert output.out == "llm-tiny: ok, 3 nodes, 426,624 parameters, 120 steps\n"
    assert "llm-tiny: no rule was applied: job llm-tiny does not fit profile local:\n--nodes 3: " in output.err
    with pytest.raises(UsageError) as caught:
        check(["llm-tiny", "job.yaml"], profile="local", nodes=3)
    assert "--nodes 3: trainer.batch: a global batch of 32 sequences" in caught.value.message
    with pytest.raises(UsageError) as caught:
        check(["llm-tiny", "job.yaml"], profile="nowhere.yaml")
    assert caught.value.message.count("nowhere.yaml") == 1


def test_the_example_is_clean() -> None:
    example = Path(__file__).parents[3] / "examples" / "minimal" / "job.yaml"
    assert check_job(str(example), [], "local").findings == ()


def test_an_unknown_id_is_a_problem_with_a_suggestion() -> None:
    Path("job.yaml").write_text(f"{JOB}lint:\n  ignore:\n  - ib-disabled\n  - blocking-launch\n")
    with pytest.raises(UsageError) as caught:
        check(["job.yaml"], profile="profile.yaml")
    assert caught.value.message.splitlines()[1:] == [
        'job.yaml:10: lint.ignore[1]: no rule has the id "blocking-launch"; did you mean blocking-launches?'
        " `fsdpctl jobs rules` lists them"
    ]


def test_submit_logs_a_line_for_each_warning_and_one_for_advice(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").touch()
    submit("job.yaml", profile="profile.yaml", nodes=3, backend=["qos=a b"], dry_run=True)
    lines = [line for line in capsys.readouterr().err.splitlines() if "partition" not in line]
    assert lines[1:] == [
        "warning: profile.yaml:7: network.nccl.NCCL_IB_DISABLE: NCCL uses TCP between the nodes, though the profile has"
        " InfiniBand [ib-disabled]",
        "warning: job.yaml:6: env.CUDA_LAUNCH_BLOCKING: CUDA_LAUNCH_BLOCKING is on: the host waits for every kernel"
        " [blocking-launches]",
        "advice: forced-algorithm",
        "hint: fsdpctl jobs check job.yaml -p profile.yaml --set nodes=3 --backend 'qos=a b' shows why;"
        " `lint: {ignore: [ID]}` in the job ignores a rule",
    ]


def test_submit_logs_a_few_lines_of_many(capsys: pytest.CaptureFixture[str]) -> None:
    setup = ", ".join(["pip install a"] * 20)
    Path("profile.yaml").write_text(f"{PROFILE}setup: [{setup}]\n")
    log_findings(check_job("job.yaml", [], "profile.yaml").findings, "COMMAND")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[8] == "warning: ... and 14 more"


def test_all_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    rules()
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[0] for row in rows if row[0] != " "] == list(dict.fromkeys(row.split()[0] for row in rows))
    assert {row.split()[0] for row in rows} == set(RuleId)
    rules(as_json=True)
    assert {rule["id"] for rule in json.loads(capsys.readouterr().out)} == set(RuleId)
