"""Every rule: its shown texts, and that no rule before it takes them."""

from __future__ import annotations

import pytest

from fsdpctl.explain.match import match_text
from fsdpctl.explain.rulebook import all_rules

SHOWN = [(rule.id, text) for rule in all_rules() for text in rule.shows]


@pytest.mark.parametrize(("rule_id", "text"), SHOWN, ids=lambda value: value[:40])
def test_a_rule_fits_its_shown_texts(rule_id: str, text: str) -> None:
    assert [match.rule.id for match in match_text(text.split("\n"))][:1] == [rule_id]
