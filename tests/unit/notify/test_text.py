"""The text of a notice, and the forms of the services."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fsdpctl.contract import Cause, State
from fsdpctl.contract.notify import Notice
from fsdpctl.notify.secrets import hide
from fsdpctl.notify.text import body, title, webhook_body
from tests.unit.notify.servers import FAILED

RESTARTS = replace(FAILED, occasions=("failure",), restart=True, why="", change="")


def test_the_text_is_that_of_the_end_of_submit() -> None:
    assert body(FAILED).splitlines() == [
        "run        mine-k3f9 FAILED: node 0: rank 1: exit code 3",
        "why        exit_code (not known): it left",
        "change     look at its log",
        "attempt    2",
        "step       40",
        "directory  /runs/mine-k3f9",
        "next       fsdpctl explain mine-k3f9",
    ]


@pytest.mark.parametrize(
    ("notice", "happened"),
    [
        (FAILED, "FAILED"),
        (RESTARTS, "failed and restarts"),
        (replace(RESTARTS, occasions=("failure", "hang"), cause=Cause.HANG), "hung and restarts"),
        (replace(RESTARTS, occasions=("preemption",), state=State.STOPPED), "was preempted and restarts"),
        (replace(FAILED, occasions=("end",), state=State.SUCCEEDED), "SUCCEEDED"),
        (replace(FAILED, occasions=("no_start",), state=None), "has not started"),
        (replace(FAILED, occasions=("non_finite_loss",), state=State.RUNNING), "has a loss that is not finite"),
        (replace(FAILED, occasions=("spike",), state=State.RUNNING), "has a loss spike"),
        (replace(FAILED, occasions=()), "sends a test notice"),
    ],
)
def test_the_title(notice: Notice, happened: str) -> None:
    assert title(notice) == f"fsdpctl: mine-k3f9 {happened}"


def test_slack_and_discord_see_no_mention_and_no_end_of_the_block() -> None:
    hostile = replace(FAILED, reason="<!channel> @everyone ```rm``` & " + "x" * 10_000)
    slack = webhook_body("slack", hostile)["text"]
    assert "<" not in slack and "&lt;!channel&gt;" in slack and slack.count("```") == 2
    discord = webhook_body("discord", hostile)
    assert discord["content"].count("```") == 2 and discord["allowed_mentions"] == {"parse": []}
    assert len(discord["content"]) <= 2000


def test_teams_gets_an_adaptive_card() -> None:
    (attachment,) = webhook_body("teams", FAILED)["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert [block["text"] for block in card["body"]] == [title(FAILED), *body(FAILED).splitlines()]
    assert json.dumps(card)


def test_a_url_leaves_no_part_in_a_text() -> None:
    url = "https://user:passw0rd@hooks.example.org/services/T0AB12CD3/B9/5ecretToken?token=abc123456"
    for part in ("T0AB12CD3", "5ecretToken", "abc123456", "passw0rd", url):
        assert part not in hide(f"no answer of {part}: {url}", url)
    assert hide("the server answered 404 Not Found", url) == "the server answered 404 Not Found"
