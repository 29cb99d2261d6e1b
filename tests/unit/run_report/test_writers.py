"""One page in three formats: every text of a run is escaped, and nothing comes from the network."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fsdpctl.contract import State
from fsdpctl.contract.events import Actor, Event, EventKind
from fsdpctl.curves.series import Curve, Mark, RunCurves
from fsdpctl.run_report.chart import draw, nice_ticks
from fsdpctl.run_report.document import Document, Paragraph, Rows, Section
from fsdpctl.run_report.facts import Code, Facts, Node, SlowRank
from fsdpctl.run_report.html import write_html
from fsdpctl.run_report.markdown import write_markdown
from fsdpctl.run_report.plain import write_text
from fsdpctl.run_report.sections import MAX_EVENTS, SECTIONS, build_document
from fsdpctl.run_report.short import used_rows
from fsdpctl.runs.git_facts import GitFacts
from fsdpctl.runs.record import NodeKind
from fsdpctl.scaling.result import Scaling, compare
from tests.unit.run_report.facts import ATTEMPT, GOOD, ledger_of, on_gpus, with_steps
from tests.unit.scaling.results import point

EVIL = "<script>alert(1)</script>\x1b[31m|\u202e\"'&`<b>`"
CURVES = RunCurves(
    EVIL, EVIL, (Curve("loss", (1, 2, 3), (3.0, 1.0, 2.0)), Curve(EVIL, (1, 2), (1.0, 1.0))), (Mark("restart", 2, 2),)
)

POINTS = compare([point(1, None, 1000), point(8, "FULL_SHARD", 900), point(8, "DDP", 800), point(16, "DDP", None)])
SCALING = Scaling("mine", "h100", "cuda", "weak", 20, POINTS, ("FULL_SHARD: it scales",))


def evil() -> Facts:
    """Return facts in which every text of a run is hostile."""
    return replace(
        GOOD,
        run_id=EVIL,
        job=EVIL,
        reason=EVIL,
        directory=EVIL,
        job_id=EVIL,
        configuration={EVIL: EVIL, "list": [EVIL], "empty": {}},
        code=Code(GitFacts(EVIL, EVIL, EVIL, (EVIL,), (EVIL,)), f"```\n{EVIL}", {"torch": EVIL}),
        attempts=(replace(ATTEMPT, reason=EVIL),),
        nodes=(Node(0, EVIL, (0, 1), EVIL, ()),),
        curves=CURVES,
        events=(Event(EventKind.NOTICE, 0.0, Actor.RANK, EVIL, 1),),
        slow_ranks=(SlowRank(0, EVIL, 1),),
        scaling=replace(SCALING, job=EVIL, profile=EVIL, points=(replace(POINTS[1], strategy=EVIL),), summary=(EVIL,)),
    )


class Tags(HTMLParser):
    """All tags and attributes of a page, and its unclosed elements."""

    VOID = ("meta", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        assert all(re.fullmatch(r"width:\d+\.\d\d%", value or "") for name, value in attrs if name == "style")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_no_text_of_a_run_becomes_a_tag_or_a_control_character() -> None:
    page = write_html(build_document(evil()), 0.0)
    found = Tags(page)
    assert found.open == []
    assert not found.tags & {"script", "b", "link", "img", "iframe", "a"}
    assert not [name for name in found.attributes if name.startswith("on") or name in ("src", "href")]
    assert "alert(1)" in page
    assert page.replace("\n", "").isprintable()
    assert not re.search(r"url\(|@import|https?:", page)


@pytest.mark.parametrize("write", [lambda page: write_html(page, 0.0), write_markdown, write_text])
def test_no_report_has_a_credential(write: Callable[[Document], str]) -> None:
    document = build_document(evil())
    lead, block = "cannot clone https://ann:pa55word@host/x", Paragraph("password=pa55word")
    section = Section("Credentials", (block, Rows((("token=pa55word", "hf_pa55wordpa55word"),))))
    page = write(replace(document, lead=lead, sections=(*document.sections, section)))
    assert "cannot clone" in page and "pa55" not in page


def test_markdown_has_no_tags_and_its_tables_keep_their_columns() -> None:
    page = write_markdown(build_document(evil()))
    outside = re.sub(r"(?ms)^(`{3,})\n.*?^\1$", "", page)
    assert "<script>" not in re.sub(r"\\<", "", re.sub(r"`[^`\n]*`", "", outside))
    assert page.replace("\n", "").isprintable()
    for table in re.findall(r"(?m)(?:^\|.*\n)+", outside):
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(columns) == 1, table
    assert "````\n```\n" in page


def test_text_has_no_control_characters_and_one_line_a_row() -> None:
    page = write_text(build_document(evil()))
    assert page.replace("\n", "").isprintable()
    assert "\\x1b[31m|\\u202e" in page


@pytest.mark.parametrize(("kwh", "shown"), [(0.0029, "0.0029"), (0.5, "0.50"), (12345.678, "12,345.68")])
def test_the_energy_of_a_short_run_is_not_zero(kwh: float, shown: str) -> None:
    assert f"{shown} kWh of the GPUs" in write_text(build_document(replace(GOOD, energy_kwh=kwh)))


@pytest.mark.parametrize("write", [write_markdown, write_text, lambda document: write_html(document, 0.0)])
def test_every_part_is_in_every_format(write: object) -> None:
    assert callable(write)
    page = write(build_document(evil()))
    titles = [title for title, _ in SECTIONS if title not in ("Why it failed",)]
    assert [title for title in titles if title not in page] == []
    assert "Why it failed" not in page


def test_the_newest_events_are_shown_and_saves_together() -> None:
    saves = [Event(EventKind.SAVED, float(step), Actor.RANK, "", 1, step=step) for step in (10, 20, 30)]
    notices = [
        Event(EventKind.NOTICE, 100.0 + number, Actor.SUPERVISOR, f"n{number}", 1) for number in range(MAX_EVENTS)
    ]
    page = write_text(build_document(replace(GOOD, events=(*saves, notices[0]))))
    assert "3 checkpoints, of steps 10 to 30" in page
    page = write_text(build_document(replace(GOOD, events=(*saves, *notices))))
    assert f"The newest {MAX_EVENTS} of {MAX_EVENTS + 1}" in page and "3 checkpoints" not in page


def test_hours_are_of_all_attempts_and_all_ranks() -> None:
    twice = replace(ATTEMPT, number=2, started=5000.0, ended=5000.0 + 1800, state=State.SUCCEEDED)
    facts = on_gpus(replace(GOOD, attempts=(replace(ATTEMPT, state=State.STOPPED), twice)), 8)
    assert (facts.node_hours, facts.rank_hours) == (1.5, 12.0)
    page = write_text(build_document(facts))
    assert re.search(r"GPU hours +12.00", page) and re.search(r"tokens per GPU hour +300,000", page)


@pytest.mark.parametrize("write", [write_markdown, write_text, lambda document: write_html(document, 0.0)])
def test_a_scaling_table_is_in_every_format(write: Callable[[Document], str]) -> None:
    without, page = write(build_document(GOOD)), write(build_document(replace(GOOD, scaling=SCALING)))
    words = re.sub(r"<[^>]*>|\|", " ", page).replace("\\", "")
    assert re.search(r"GPUs +nodes +strategy +batch +tokens/s +tokens/s per GPU +efficiency +MFU", words)
    assert [
        re.search(pattern, words) is not None
        for pattern in (
            r"\b1 +1 +- +8 +1,000 +1,000 +100% +-",
            r"\b8 +1 +FULL_SHARD +64 +7,200 +900 +90% +-",
            r"\b8 +1 +DDP +64 +6,400 +800 +80% +-",
        )
    ] == [True] * 3, words
    assert "Weak scaling of mine on h100" in page and "FULL_SHARD: it scales" in words
    assert "Not measured: 16 GPUs (DDP)." in page and "Weak scaling" not in without


def test_an_attempt_on_more_nodes_counts_more_hours() -> None:
    twice = replace(ATTEMPT, number=2, started=5000.0, ended=5000.0 + 1800, hosts=("alpha", "beta", "gamma", "delta"))
    assert replace(GOOD, attempts=(ATTEMPT, twice)).node_hours == 1 + 0.5 * 4


def test_an_attempt_counts_the_ranks_that_it_had() -> None:
    kinds = (NodeKind(4, "cuda"), None, NodeKind(2, "cpu"))
    attempts = tuple(replace(ATTEMPT, number=number, node=node) for number, node in enumerate(kinds, 1))
    assert on_gpus(replace(GOOD, attempts=attempts), 8).rank_hours == 4 + 8
    assert replace(GOOD, attempts=attempts[::2]).rank_hours == 4 + 2


def test_the_short_form_is_a_few_lines() -> None:
    assert used_rows(GOOD) == [("used", "1:00:00 on 1 node: 1.00 node hours, 2.00 rank hours")]
    rows = used_rows(
        replace(
            with_steps(skipped=2, mfu=0.1), ledger=ledger_of(start=1800, step=1800), slow_ranks=(SlowRank(0, "a", 1),)
        )
    )
    assert [key for key, _ in rows] == ["used", "note", "", ""]
    assert used_rows(replace(GOOD, attempts=())) == []


@pytest.mark.parametrize(
    "values", [(0.0, 0.0), (-1e149, 1e149), (1e-300, 2e-300), (3.4e38, 1.0), (-5.0, -5.0), (0.0, 4e-320), (0.0, 5e-324)]
)
def test_a_chart_of_any_numbers_has_finite_coordinates(values: tuple[float, ...]) -> None:
    picture = draw(Curve("loss", (1, 2), values), ())
    assert not re.search("nan|inf", picture) and len(picture) < 4000


def test_ticks_are_round_and_within_the_values() -> None:
    assert nice_ticks(0.0, 1.0) == [0.0, 0.5, 1.0]
    assert nice_ticks(5.0, 5.0) == [5.0]
    for low, high in ((1, 99_999), (-3.2, 7.9), (1e-9, 3e-9), (2.345, 2.346)):
        ticks = nice_ticks(low, high)
        assert 2 <= len(ticks) <= 7 and ticks == sorted(ticks)
        assert low - (high - low) * 0.02 <= ticks[0] and ticks[-1] <= high + (high - low) * 0.02
