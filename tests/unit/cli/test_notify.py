"""`fsdpctl notify test`, with real servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.backends.harness import fsdpctl
from tests.unit.notify.servers import http_server

PROFILE = """\
name: here
notify:
  - {kind: slack, url_env: GOOD_HOOK}
  - {kind: json, url_file: ~/bad-hook}
"""


def test_each_target_gets_a_test_and_what_failed_is_named(home: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PROFILE)
    settings = home / ".config" / "fsdpctl" / "settings.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("notify:\n  - {kind: command, command: [no-such-program-at-all]}\n")
    with http_server() as good, http_server(404) as bad:
        (home / "bad-hook").write_text(bad.url)
        done = fsdpctl("notify", "test", "-p", "p.yaml", "--json", cwd=tmp_path, expect=1, env={"GOOD_HOOK": good.url})
    found = {one["name"]: (one["ok"], one["problem"]) for one in json.loads(done.stdout)}
    assert found == {
        "slack webhook of $GOOD_HOOK": (True, None),
        "json webhook of ~/bad-hook": (False, "the server answered 404 Not Found"),
        "command no-such-program-at-all": (
            False,
            "no-such-program-at-all cannot be started: No such file or directory",
        ),
    }
    assert "sends a test notice" in good.bodies[0]["text"] and len(bad.requests) == 1


def test_commands_of_one_name_are_numbered_and_their_words_not_shown(tmp_path: Path) -> None:
    """A name has its own result, whichever is the first to end."""
    entries = [
        "{kind: command, command: [sh, -c, 'sleep 0.2; : secret']}",
        "{kind: command, command: [sh, -c, 'exit 3']}",
        "{kind: command, command: [cat]}",
    ]
    (tmp_path / "p.yaml").write_text("name: here\nnotify:\n" + "".join(f"  - {entry}\n" for entry in entries))
    done = fsdpctl("notify", "test", "-p", "p.yaml", "--json", cwd=tmp_path, expect=1)
    found = {one["name"]: one["ok"] for one in json.loads(done.stdout)}
    assert found == {"command sh, 1 of 2": True, "command sh, 2 of 2": False, "command cat": True}
    assert "secret" not in done.stdout + done.stderr


def test_without_a_target_it_names_both_files(tmp_path: Path) -> None:
    done = fsdpctl("notify", "test", "-p", "local", cwd=tmp_path, expect=2)
    assert "neither profile local nor" in done.stderr and "settings.yaml has targets" in done.stderr


@pytest.mark.parametrize(
    ("entry", "missing"),
    [
        ("{kind: slack, url_env: NO_SUCH_HOOK}", "the variable NO_SUCH_HOOK is not set"),
        ("{kind: json, url_file: /no/such/file}", "/no/such/file cannot be read"),
        ("{kind: mail, to: [a@b], sendmail: no-such-sendmail}", "there is no program no-such-sendmail"),
        ("{kind: command, command: [no-such-program]}", "there is no program no-such-program"),
    ],
)
def test_the_check_names_what_is_missing(entry: str, missing: str) -> None:
    from fsdpctl.contract.findings import Result
    from fsdpctl.node.checks.notify import check_targets
    from fsdpctl.specs.load import parse_profile
    from fsdpctl.specs.notify import plan_targets

    (finding,) = check_targets(plan_targets(parse_profile(f"name: p\nnotify: [{entry}]\n", "p.yaml").notify))
    assert finding.result is Result.WARN and missing in finding.reason


def test_the_check_finds_what_is_there(tmp_path: Path) -> None:
    from fsdpctl.contract.notify import NotifyTarget, SecretPlace, Webhook
    from fsdpctl.notify.check import find_missing

    file = tmp_path / "url"
    file.write_text("https://hooks.example.org/x")
    file.chmod(0o600)
    targets = [
        NotifyTarget(("end",), 1, webhook=Webhook("json", SecretPlace(file=str(file)))),
        NotifyTarget(("end",), 1, command=("sh",)),
    ]
    assert find_missing(targets) == []
    file.chmod(0o644)
    assert find_missing(targets) == [f"json webhook of {file}: {file} can be read by others; chmod 600 {file}"]
