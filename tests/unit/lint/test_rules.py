"""Each rule finds what it is for, and nothing in settings that are close to it."""

from __future__ import annotations

import re

import pytest

from fsdpctl.contract.cards import find_card
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.lint.find import find_all
from fsdpctl.lint.rule import Finding, Rule
from fsdpctl.lint.subject import Subject
from fsdpctl.lint.table import RULES, SECTIONS, rules_of
from fsdpctl.schema.override import apply_overrides
from fsdpctl.schema.problems import key_path
from fsdpctl.schema.validate import validate
from fsdpctl.schema.yaml_tree import YamlDocument, parse_mapping
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.lint import RuleId
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.specs.profile import ClusterProfile
from tests.unit.lint.cases import CASES, CPUS, SCRIPT, SLURM, SSH, TRAINER, Case, Given, script

HOST = SubmitHost(run_id="x-1", run_dir="/shared/runs/x-1", submit_dir="/home/me", python="python3", gpus=())


def document(text: str, changes: tuple[str, ...], name: str) -> YamlDocument:
    tree = parse_mapping(text, name, name)
    apply_overrides(tree, changes)
    return tree


def find(given: Given) -> list[Finding]:
    documents = document(given.job_text, given.job, "j.yaml"), document(given.profile_text, given.profile, "p.yaml")
    job, profile = validate(documents[0], JobSpec), validate(documents[1], ClusterProfile)
    written = frozenset(key_path(path) for tree in documents for path in tree.locations)
    card = find_card(profile.gpu) if profile.gpu is not None else None
    return find_all(Subject(job, profile, build_plan(profile, job, HOST), written, card))


def found(given: Given) -> set[tuple[str, str]]:
    return {(finding.rule.id, finding.key) for finding in find(given)}


@pytest.mark.parametrize("text", [SLURM, SSH, CPUS])
@pytest.mark.parametrize("job", [TRAINER, SCRIPT])
def test_nothing_is_found_in_clean_files(job: str, text: str) -> None:
    assert found(Given(job_text=job, profile_text=text)) == set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.key}")
def test_a_rule_finds_what_it_is_for(case: Case) -> None:
    assert found(case.found) == {(case.rule, case.key)}
    (finding,) = find(case.found)
    assert re.fullmatch(r"\S.{10,110}[^.]", finding.text), "one line, and no sentence with a full stop"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.key}")
def test_a_rule_leaves_what_is_close_to_it(case: Case) -> None:
    assert found(case.quiet) == set()


def test_every_rule_has_a_case_and_one_row() -> None:
    assert {case.rule for case in CASES} == set(RuleId)
    assert sorted(rule.id for rule in RULES) == sorted(RuleId)
    assert len(RULES) == sum(len(rules_of(module)) for module in SECTIONS.values())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_a_reason_a_remedy_and_a_source(rule: Rule) -> None:
    for text in (rule.what, rule.why, rule.change):
        assert re.fullmatch(r"\S.*\.", text)
    assert rule.source.startswith(("https://", "docs/"))


def test_a_secret_is_never_part_of_a_finding() -> None:
    texts = [finding.text for case in CASES if case.rule is RuleId.SECRET_IN_ENV for finding in find(case.found)]
    assert len(texts) == 4
    assert not [text for text in texts if "abc" in text]


def test_a_finding_is_one_line_whatever_a_value_is() -> None:
    (finding,) = find(Given(('env.NCCL_ALGO="Ring\\n\\e[2J' + 1000 * "x" + '"',)))
    assert finding.text.startswith(r"NCCL_ALGO is Ring\n\u001b[2Jxxx") and len(finding.text) < 200


def test_a_digit_that_is_no_number_is_no_finding() -> None:
    profile = ("backend.cpus_per_task=64",)
    assert found(Given(("env.OMP_NUM_THREADS=²",), profile)) == set()
    assert found(script("args=[x, --num-workers, ²]", profile=profile)) == set()


@pytest.mark.parametrize("where", ["job", "profile"])
def test_a_rule_can_be_ignored(where: str) -> None:
    keep_one = ("trainer.checkpoint.keep=1",)
    assert found(Given(keep_one)) == {(RuleId.KEEP_ONE, "trainer.checkpoint.keep")}
    ignored = ("lint.ignore=[keep-one]",)
    given = Given((*keep_one, *ignored)) if where == "job" else Given(keep_one, ignored)
    assert found(given) == set()


def test_warnings_are_first() -> None:
    findings = find(Given(("trainer.eval={sequences: 256}", "trainer.checkpoint.keep=1")))
    assert [finding.rule.severity for finding in findings] == ["warning", "advice"]


@pytest.mark.parametrize("profile", ["local", "slurm-h100", "ssh-h100"])
@pytest.mark.parametrize("name", ["llm-tiny", "llm-tiny-gpu", "llm90m", "llm300m", "llm7b"])
@pytest.mark.parametrize("nodes", [1, 4])
def test_nothing_is_found_in_what_is_shipped(name: str, profile: str, nodes: int) -> None:
    job, loaded = load_job(name, [f"nodes={nodes}"]), load_profile(profile)
    loaded = loaded.model_copy(update={"runs_root": "/shared/me/runs"})  # as the profile's comment asks for
    written = frozenset({"trainer.mesh.strategy", "trainer.mesh.units.blocks"})
    card = find_card(loaded.gpu) if loaded.gpu is not None else None
    assert find_all(Subject(job, loaded, build_plan(loaded, job, HOST), written, card)) == []
