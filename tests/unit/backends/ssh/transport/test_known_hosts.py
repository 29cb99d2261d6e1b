"""known_hosts and `ssh -G`, read as OpenSSH reads them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from fsdpctl.backends.ssh.transport.known_hosts import find_known, refusal
from fsdpctl.backends.ssh.transport.ssh_config import parse_route

BLOB = base64.b64encode(b"a key").decode()


@pytest.mark.parametrize(
    ("patterns", "name", "known"),
    [
        ("host", "host", True),
        ("HOST", "Host", True),
        ("other,host", "host", True),
        ("host", "host.example", False),
        ("*.example", "a.example", True),
        ("10.77.0.?", "10.77.0.4", True),
        ("10.77.0.?", "10.77.0.44", False),
        ("*.example,!a.example", "a.example", False),
        ("!a.example,*.example", "a.example", False),
        ("[host]:2222", "[host]:2222", True),
        ("[host]:2222", "host", False),
        ("host", "[host]:2222", False),
        ("[ab]", "a", False),
        # `ssh-keygen -H` of the line "host ..."
        ("|1|6gkhsBTkoyyRGRV5AFh4Olm8GwU=|broken!", "host", False),
    ],
)
def test_patterns(patterns: str, name: str, known: bool) -> None:
    assert bool(list(find_known(f"{patterns} ssh-ed25519 {BLOB} comment\n", "f", name))) is known


def test_lines_without_a_usable_key_are_skipped() -> None:
    text = (
        f"# host ssh-ed25519 {BLOB}\n\nhost\nhost ssh-ed25519\nhost ssh-ed25519 ***\n@cert-authority * ssh-rsa {BLOB}\n"
    )
    assert list(find_known(text, "f", "host")) == []


def test_a_revoked_key_is_refused_even_if_another_line_lists_it() -> None:
    text = f"host ssh-ed25519 {BLOB}\n@revoked * ssh-ed25519 {BLOB}\n"
    known = list(find_known(text, "f", "host"))
    assert [key.location for key in known] == ["f:1", "f:2"]
    reason = refusal("host", "ssh-ed25519", b"a key", known, [])
    assert reason is not None and "revoked by f:2" in reason
    assert refusal("host", "ssh-ed25519", b"a key", known[:1], []) is None


def route_of(*lines: str):  # type: ignore[no-untyped-def]
    return parse_route("\n".join(["hostname h", "port 22", "user me", *lines]), 7)


def test_a_jump_runs_ssh_without_prompts() -> None:
    proxy = route_of("proxyjump a@x:2,y").proxy
    assert proxy[-1] == "ssh://y" and proxy[-3:-1] == ("-W", "[h]:22")
    assert "-oBatchMode=yes" in proxy and "-oConnectTimeout=7" in proxy
    assert proxy[proxy.index("-J") + 1] == "ssh://a@x:2"
    assert route_of("proxyjump none").proxy == ()
    assert route_of("proxycommand none").proxy == ()


def test_a_proxy_command_gets_its_tokens() -> None:
    assert route_of("proxycommand nc %h %p # %r %%").proxy == ("sh", "-c", "exec nc h 22 # me %")


def test_names_files_and_agent() -> None:
    route = route_of(
        "hostkeyalias alias", "userknownhostsfile /a /b", "globalknownhostsfile none", "identityagent none"
    )
    assert (route.key_name, route.known_hosts, route.use_agent) == ("alias", (Path("/a"), Path("/b")), False)
    assert route_of("identitiesonly yes").use_agent is False
    assert route_of().use_agent is True
