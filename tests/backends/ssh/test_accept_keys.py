"""Host keys taken on purpose: shown, stored as OpenSSH would, and never one in the place of another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.backends.ssh.test_link import ROOT, at, fingerprint, known_hosts, probe, public, sshd
from tests.testbed.ssh_hosts import Lan, make_key

ACCEPT_NEW = """
import sys
from fsdpctl.backends.ssh.transport.ssh_config import Target
from fsdpctl.backends.ssh.transport.accept_keys import accept_new
accept_new([Target(address, address, connect_timeout_s=10) for address in sys.argv[1:]], print)
"""


def accept_new(lan: Lan, *addresses: str) -> list[str]:
    words = lan.login.command(sys.executable, "-c", ACCEPT_NEW, *addresses, cwd=ROOT)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.splitlines()


def test_the_key_of_each_jump_host_is_shown_and_stored_once(lan: Lan) -> None:
    first, second, third, _ = lan.nodes
    (lan.login.home / ".ssh" / "config").write_text("HashKnownHosts no\nInclude more.conf\n")
    (lan.login.home / ".ssh" / "more.conf").write_text(
        f"Host far\n  HostName {third.address}\n  Port 2226\n  ProxyJump {first.address},{second.address}\n"
    )
    known_hosts(lan).unlink()
    with sshd(third, 2226):
        told = accept_new(lan, "far", first.address)
        assert probe(lan, ("far", "far", 22), timeout_s=10).stdout == ["node3\n"]
        assert accept_new(lan, "far") == []
    hops = {first.address: first, f"ssh://[{second.address}]": second, "far": third}
    assert told == [
        f"{hop}: new host key ssh-ed25519 {fingerprint(host.dir / 'host_key')}, stored in {known_hosts(lan)}"
        for hop, host in hops.items()
    ]
    names = (first.address, second.address, f"[{third.address}]:2226")
    lines = [f"{name} {public(host.dir / 'host_key')}" for name, host in zip(names, hops.values(), strict=True)]
    assert known_hosts(lan).read_text().splitlines() == lines


def test_a_new_key_is_stored_and_a_changed_key_still_refused(lan: Lan, tmp_path: Path) -> None:
    changed, new, dead, _ = lan.nodes
    make_key(tmp_path / "older", "")
    (lan.login.home / ".ssh" / "config").write_text("HashKnownHosts yes\n")
    known_hosts(lan).write_text(f"{changed.address} {public(tmp_path / 'older')}")  # as an editor left it: no newline
    dead.pull_cable()
    (told,) = accept_new(lan, changed.address, new.address, dead.address)
    assert told.startswith(f"{new.address}: new host key ssh-ed25519 {fingerprint(new.dir / 'host_key')}")
    older, stored = known_hosts(lan).read_text().splitlines()
    assert older == f"{changed.address} {public(tmp_path / 'older')}"
    assert stored.startswith("|1|") and new.address not in stored
    found = probe(lan, at(changed), at(new), timeout_s=10)
    assert found.errors[0] is not None and f"{known_hosts(lan)}:1 has" in found.errors[0]
    assert found.stdout[1] == "node2\n"
