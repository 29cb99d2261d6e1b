"""The list `notify` of a profile, and of the user's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.notify import Mail, NotifyTarget, SecretPlace, Smtp, Webhook
from fsdpctl.errors import FsdpctlError
from fsdpctl.specs.load import parse_profile
from fsdpctl.specs.notify import plan_targets
from fsdpctl.specs.settings import load_settings

DEFAULT = ("end", "failure")


def read(entry: str) -> NotifyTarget:
    (target,) = plan_targets(parse_profile(f"name: p\nnotify:\n  - {entry}\n", "p.yaml").notify)
    return target


@pytest.mark.parametrize(
    ("entry", "target"),
    [
        (
            "{kind: slack, url_env: HOOK}",
            NotifyTarget(DEFAULT, 3600, webhook=Webhook("slack", SecretPlace(env="HOOK"))),
        ),
        (
            "{kind: teams, url_file: ~/hook, on: [hang, no_start], no_start_after: 10m}",
            NotifyTarget(("hang", "no_start"), 600, webhook=Webhook("teams", SecretPlace(file="~/hook"))),
        ),
        (
            "{kind: mail, to: [me@example.org]}",
            NotifyTarget(DEFAULT, 3600, mail=Mail(("me@example.org",), None, "sendmail")),
        ),
        (
            "{kind: mail, to: [a@b], smtp: mx, encryption: starttls, user: me, password_env: PW}",
            NotifyTarget(
                DEFAULT,
                3600,
                mail=Mail(("a@b",), None, "sendmail", Smtp("mx", 587, "starttls", "me", SecretPlace(env="PW"))),
            ),
        ),
        ("{kind: command, command: [notify-me, -v]}", NotifyTarget(DEFAULT, 3600, command=("notify-me", "-v"))),
    ],
)
def test_an_entry_becomes_a_target(entry: str, target: NotifyTarget) -> None:
    assert read(entry) == target


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{kind: slack}", "give either `url_env` or `url_file`"),
        ("{kind: slack, url_env: A, url_file: /b}", "give either `url_env` or `url_file`"),
        ("{kind: slack, url: https://hooks.example.org/5ecret}", "url"),
        ("{kind: slack, url_file: 'https://hooks.example.org/5ecret'}", "must be an absolute path"),
        ("{kind: slack, url_env: A, on: [often]}", "on"),
        ("{kind: mail, to: []}", "is a list of addresses"),
        ("{kind: mail, to: [me]}", "is a list of addresses"),
        ("{kind: mail, to: [a@b], smtp_port: 25}", "belongs to `smtp`"),
        ("{kind: mail, to: [a@b], smtp: mx, user: me}", "belongs to a password"),
        ("{kind: mail, to: [a@b], smtp: mx, user: me, password_env: P}", "needs `starttls` or `tls`"),
        ("{kind: mail, to: [a@b], smtp: mx, user: me, password_env: P, password_file: /p}", "or `password_file`"),
        ("{kind: command, command: []}", "begins with a program"),
        ("{kind: command, command: [bin/notify]}", "begins with a program"),
        ("{kind: pager}", "must be one of slack, discord, teams, json, mail, command"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_line(entry: str, problem: str) -> None:
    with pytest.raises(FsdpctlError) as refused:
        read(entry)
    assert "p.yaml:3" in refused.value.message and problem in refused.value.message


def test_settings_are_optional_and_strict(home: Path) -> None:
    assert load_settings().notify == ()
    file = home / ".config" / "fsdpctl" / "settings.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("notify:\n  - {kind: discord, url_env: HOOK, on: [end]}\n")
    assert [target.on for target in plan_targets(load_settings().notify)] == [("end",)]
    file.write_text("notfy: []\n")
    with pytest.raises(FsdpctlError, match=r"settings.yaml:1: .*notfy.*notify"):
        load_settings()
