"""The errors and warnings of `fsdpctl submit` before it starts a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fsdpctl.cli.app import build_app
from fsdpctl.cli.before_submit import predict_slow_steps
from fsdpctl.contract.problems import Problem
from fsdpctl.errors import UsageError
from fsdpctl.launch.build import IncompatibleError
from fsdpctl.launch.locate import locate_problems
from fsdpctl.specs.load import job_document, load_job, profile_document
from fsdpctl.specs.search import find_job
from fsdpctl.verbs.submit import read_request

HOSTS = """name: two
backend: {kind: ssh}
master_address: 10.0.0.1
nodes:
  - {id: a, address: 10.0.0.1, gpus: 2}
  - {id: b, address: 10.0.0.2, gpus: 2}
procs_per_node: 4
"""


@pytest.mark.parametrize(
    ("job", "tokens", "word"),
    [
        ("llm-tiny", 8192, None),
        ("llm300m", 2048, None),  # a large model, but little of it a step
        ("llm300m", 16384, "minutes"),
        ("llm7b", 262_144, "hours"),
    ],
)
def test_slow_steps_are_predicted_by_their_work_not_by_the_size_of_the_model(
    job: str, tokens: int, word: str | None
) -> None:
    trainer = load_job(job, [f"trainer.batch={{tokens: {tokens}, micro_batch: 1}}"]).trainer
    assert trainer is not None
    warning = predict_slow_steps(trainer)
    if word is None:
        assert warning is None
    else:
        assert warning is not None
        assert f"{tokens:,} tokens a step without a GPU: expect {word} for each" in warning


def test_problems_between_job_and_profile_are_located_in_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.yaml").write_text(HOSTS)
    Path("mine.yaml").write_text("name: mine\nentrypoint: {script: s.py}\nnodes: 3\n")
    Path("s.py").touch()
    with pytest.raises(IncompatibleError) as caught:
        read_request("mine.yaml", "two.yaml")
    assert str(caught.value).splitlines() == [
        "job mine does not fit profile two:",
        "mine.yaml:3: nodes: 3 wanted, but the profile lists 2",
        "two.yaml:7: procs_per_node: 4 ranks a node need as many GPUs, but a node has 2",
    ]
    with pytest.raises(IncompatibleError) as caught:
        read_request("mine.yaml", "two.yaml", ["--nodes=9"])
    assert "\n--nodes 9: nodes: 9 wanted" in str(caught.value)


JOB = (
    find_job("llm-tiny").read_text().replace("nodes: 1", "nodes: 2").replace("HYBRID_SHARD}", "HYBRID_SHARD, shard: 2}")
)
BATCH, MESH = "trainer.batch: a global batch of", "trainer.mesh: shard"


@pytest.mark.parametrize(
    ("sequences", "typed", "problem"),
    [
        (8, ["trainer.mesh.shard=3"], f"--set trainer.mesh.shard=3: {MESH} 3 does not divide the 4 ranks"),
        (8, ["trainer.mesh={shard: 3}"], f"--set trainer.mesh={{shard: 3}}: {MESH} 3 does not divide the 4 ranks"),
        (8, ["--procs-per-node=3", "--nodes=1"], f"--procs-per-node 3, --nodes 1: {MESH} 2 does not divide"),
        (8, ["trainer.steps=20", "trainer.mesh.shard=3"], f"--set trainer.mesh.shard=3: {MESH} 3 does not divide"),
        (8, ["--nodes=3"], f"--nodes 3: {BATCH} 8 sequences does not divide over 6 ranks"),
        (8, ["trainer.batch.sequences=9"], f"--set trainer.batch.sequences=9: {BATCH} 9 sequences"),
        (9, ["trainer.batch.micro_batch=4", "trainer.seed=3"], f"mine.yaml:14: {BATCH} 9 sequences"),
    ],
)
def test_an_option_is_named_for_the_problems_that_it_causes_and_for_no_other(
    sequences: int, typed: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.yaml").write_text("name: here\nbackend: local\nprocs_per_node: 2\ngpus_per_node: 0\n")
    Path("mine.yaml").write_text(JOB.replace("sequences: 32", f"sequences: {sequences}"))
    with pytest.raises(IncompatibleError) as caught:
        read_request("mine.yaml", "here.yaml", typed)
    assert str(caught.value).splitlines()[1].startswith(problem)


def test_too_many_nodes_for_the_gpus_are_located_at_the_option(tmp_path: Path) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text("name: p\nbackend: local\ngpus_per_node: 2\n")
    problem = Problem("gpus_per_node", "3 nodes x 2 GPUs wanted, but this machine has 4", ("nodes",))
    found = IncompatibleError("incompatible", [problem])
    for typed, place in ((["nodes=3"], "--set nodes=3"), ([], f"{profile}:3")):
        documents = (job_document(find_job("llm-tiny"), typed), profile_document(profile))
        assert str(locate_problems(found, *documents)).splitlines() == ["incompatible:", f"{place}: {problem}"]


@pytest.mark.parametrize("key", ["python: /nope/bin/python", "venv: /nope", "python: nosuchpython"])
def test_an_interpreter_that_this_machine_does_not_have_is_refused(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.yaml").write_text(f"name: here\nbackend: local\n{key}\n")
    with pytest.raises(UsageError, match=r"profile here: this machine has no program .*(nope/bin/|nosuch)python$"):
        read_request("llm-tiny", "here.yaml")


def test_a_job_that_cannot_fit_its_gpus_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path))
    runner = CliRunner()
    asked = ["submit", "llm7b", "-p", "slurm-h100", "--set", "trainer.mesh.strategy=DDP"]
    refused = runner.invoke(build_app("submit"), asked)
    assert isinstance(refused.exception, UsageError)
    assert "85.7 GiB too much" in refused.exception.message
    assert list(tmp_path.glob("runs/*")) == []
    shown = runner.invoke(build_app("submit"), [*asked, "--dry-run"])
    assert shown.exit_code == 0
    assert "warning: job llm7b needs about 164.8 GiB" in shown.stderr


@pytest.mark.parametrize("name", ["2024", "1e5", "null"])
def test_a_name_that_yaml_would_read_as_a_number_or_as_nothing_is_a_name(name: str, home: Path) -> None:
    shown = CliRunner().invoke(build_app(), ["submit", "llm-tiny", "-p", "local", "--dry-run", "--name", name])
    assert shown.exit_code == 0 and f"{name}-dryrun" in shown.stdout


@pytest.mark.parametrize("option", ["--name", "--debug"])
def test_an_empty_option_is_shown_as_it_was_given(option: str, home: Path) -> None:
    refused = CliRunner().invoke(build_app(), ["submit", "llm-tiny", "-p", "local", "--dry-run", option, ""])
    assert f'{option} "": {option[2:]}: ' in str(refused.exception) and 'got ""' in str(refused.exception)
