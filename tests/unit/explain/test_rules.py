"""Every rule: the texts that it shows, its log, and that no rule before it takes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fsdpctl.contract.codec import CodecError
from fsdpctl.explain.logs import statements
from fsdpctl.explain.logs.files import explain_files
from fsdpctl.explain.logs.match import match_text
from fsdpctl.explain.logs.prefilter import is_decided_by_words, may_matter, shape_of
from fsdpctl.explain.rule import Rule, end_sentence
from fsdpctl.explain.rulebook import FOLDER, all_rules, check_rule, read_rules
from fsdpctl.schema.problems import SpecError

LOGS = Path(__file__).with_name("logs")
DOCS = Path(__file__).parents[3] / "docs"
RULES = [rule for rule in all_rules() if rule.exceptions or rule.lines]
IDS = [rule.id for rule in RULES]


def test_there_are_as_many_rules_as_promised() -> None:
    assert len(IDS) >= 60


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_a_rule_can_be_used(rule: Rule) -> None:
    check_rule(rule)


def test_every_log_is_of_a_rule() -> None:
    assert {path.stem for path in LOGS.glob("*.log")} == set(IDS)


@pytest.mark.parametrize("rule_id", IDS)
def test_a_rule_takes_its_log(rule_id: str) -> None:
    first = explain_files([LOGS / f"{rule_id}.log"]).first
    assert first is not None and first.rule == rule_id


def test_every_log_names_its_source() -> None:
    heads = {path.stem: path.read_text(encoding="utf-8").partition("\n")[0] for path in LOGS.glob("*.log")}
    assert not [name for name, head in heads.items() if not head.startswith(("# recorded: ", "# after: "))]


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_a_rule_takes_the_texts_that_it_shows(rule: Rule) -> None:
    assert rule.shows
    for text in rule.shows:
        assert [match.rule.id for match in match_text(text.split("\n"))][:1] == [rule.id], text


def test_the_prefilter_keeps_what_a_rule_fits() -> None:
    shown = [text.split("\n") for rule in RULES for text in rule.shows]
    heads = [next(line for line in lines if not line.startswith(("Traceback", "  File"))) for lines in shown]
    assert not [line for line in heads if not may_matter(line)]


def test_the_prefilter_changes_no_match(monkeypatch: pytest.MonkeyPatch) -> None:
    def matches() -> list[tuple[int, str]]:
        logs = [path.read_text(encoding="utf-8").splitlines() for path in sorted(LOGS.glob("*.log"))]
        return [(match.number, match.rule.id) for lines in logs for match in match_text(lines)]

    filtered = matches()
    monkeypatch.setattr(statements, "may_matter", bool)
    assert matches() == filtered


def test_a_line_of_other_numbers_is_of_the_same_rule_unless_a_number_decides() -> None:
    wrong = []
    for text in (text for rule in RULES if rule.lines for text in rule.shows):
        other = re.sub(r"\d", "0", text)
        if is_decided_by_words(shape_of(text)) and bool(match_text([other])) != bool(match_text([text])):
            wrong.append(text)
    assert not wrong


def test_rules_link_to_pages() -> None:
    assert not [rule.id for rule in RULES if rule.docs and not (DOCS / rule.docs.partition("#")[0]).is_file()]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("category: cuda_oom", "category: cuda_omm"), "'cuda_omm' is not one of"),
        (("retry: true", "retry: maybe"), "expected true or false"),
        (("remedy:", "remedies:"), "unknown key"),
        (("{tried} left", "{wanted} left"), "no pattern has the group wanted"),
        (("heading: Memory", "heading: Memory\nheading: Again"), "given twice"),
        (("id: cuda_oom_fragmented\n", "id: cuda_oom\n"), "rules given twice: cuda_oom"),
        (("(?s)CUDA out", "(CUDA out"), "missing ), unterminated subpattern"),
    ],
)
def test_a_file_with_a_mistake_is_refused(change: tuple[str, str], found: str, tmp_path: Path) -> None:
    text = (FOLDER / "20_memory.yaml").read_text(encoding="utf-8")
    assert change[0] in text
    (tmp_path / "20_memory.yaml").write_text(text.replace(*change, 1), encoding="utf-8")
    with pytest.raises((CodecError, SpecError, re.error), match=found.replace(")", r"\)")):
        for rule in read_rules(tmp_path).rules:
            check_rule(rule)


@pytest.mark.parametrize(
    ("message", "shown"),
    [("sizes differ", "sizes differ."), ("sizes differ.", "sizes differ."), ("cut ...", "cut ...")],
)
def test_a_sentence_ends_with_one_period(message: str, shown: str) -> None:
    assert end_sentence(f"{message}.") == shown
