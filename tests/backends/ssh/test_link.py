"""Connections to real sshd: who is refused, for what reason, and within which time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.ssh_hosts import Host, Lan, make_key, wait_until

ROOT = Path(__file__).parents[3]


@dataclass
class Probe:
    stdout: list[str | None]
    errors: list[str | None]
    began: list[float]
    ended: list[float]


def probe(
    lan: Lan,
    *hosts: tuple[str, str, int],
    argv: tuple[str, ...] = ("hostname",),
    timeout_s: int = 3,
    stdin_mib: int = 0,
) -> Probe:
    given = (str(timeout_s), json.dumps(hosts), str(stdin_mib))
    words = lan.login.command(sys.executable, "-m", "tests.backends.ssh.probe", *given, *argv, cwd=ROOT)
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    answers = json.loads(done.stdout)
    return Probe(*([answer[key] for answer in answers] for key in ("stdout", "error", "began", "ended")))


def at(host: Host, port: int = 22) -> tuple[str, str, int]:
    return host.name, host.address, port


def known_hosts(lan: Lan) -> Path:
    return lan.login.home / ".ssh" / "known_hosts"


def public(key: Path) -> str:
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def fingerprint(key: Path) -> str:
    return subprocess.run(["ssh-keygen", "-lf", str(key)], capture_output=True, text=True, check=True).stdout.split()[1]


@contextmanager
def sshd(host: Host, port: int, *options: str) -> Iterator[None]:
    """One more sshd on the host."""
    words = [f"-o{option}" for option in (*options, "UsePAM=no", "StrictModes=no", "PidFile=none", f"Port={port}")]
    keys = (f"-oHostKey={host.dir}/host_key", f"-oAuthorizedKeysFile={host.dir}/authorized_keys")
    log = host.dir / f"sshd-{port}.log"
    with open(log, "wb") as file:
        daemon = subprocess.Popen(
            host.command("/usr/sbin/sshd", "-D", "-e", "-f/dev/null", *keys, *words), stdout=file, stderr=file
        )
    try:
        wait_until(lambda: b"Server listening" in log.read_bytes(), "the second sshd", log)
        yield
    finally:
        subprocess.run(["pkill", "-KILL", "-P", str(daemon.pid)], check=False)
        daemon.kill()
        daemon.wait()


def test_arguments_arrive_unchanged_on_all_hosts(lan: Lan) -> None:
    odd = "a 'b' \"c\" $(touch /tmp/pwned) `id` \\n * ; & |"
    found = probe(lan, *map(at, lan.nodes), argv=("printf", "%s|%s", odd, ""))
    assert found.stdout == [f"{odd}|"] * 4, found.errors
    assert not any((host.dir / "tmp" / "pwned").exists() for host in lan.nodes)


def test_a_command_that_ends_before_it_has_read_everything_is_answered(lan: Lan) -> None:
    found = probe(lan, *map(at, lan.nodes), argv=("echo", "full"), stdin_mib=64, timeout_s=30)
    assert (found.stdout, found.errors) == (["full\n"] * 4, [None] * 4)


def test_what_start_up_files_print_is_left_out(lan: Lan) -> None:
    node = lan.nodes[0]
    (node.home / ".bashrc").write_text(
        "echo Welcome; printf 'no newline'; trap 'echo bye' EXIT; trap 'echo dbg' DEBUG\n"
    )
    try:
        found = probe(lan, at(node), argv=("sh", "-c", "echo one; echo two; exit 3"))
    finally:
        (node.home / ".bashrc").unlink()
    assert found.stdout == ["one\ntwo\n"], found.errors


def test_start_up_files_that_break_commands_are_named_and_nothing_stays(lan: Lan) -> None:
    """One shell ends, one hangs, one prints without an end; and one command does, in a good shell. Not as root."""
    (lan.login.home / ".ssh" / "config").write_text("Host *\n  User plain\n")
    files = [host.dir / "tmp" / ".bashrc" for host in lan.nodes]  # the home of that user
    for file, text in zip(files, ("echo not today; exit 3", "sleep 61", "yes no | head -c 1G", ""), strict=True):
        file.write_text(f"{text}\n")
    try:
        found = probe(lan, *map(at, lan.nodes), argv=("head", "-c", "1G", "/dev/zero"), timeout_s=10)
        wait_until(lambda: not any(host.processes() for host in lan.nodes), "that all is gone", lan.nodes[1].log)
    finally:
        for file in files:
            file.unlink()
    broken = "start-up files of the shell break automation: ~/.bashrc"
    began = "from the login shell, which began no command"
    assert found.errors == [
        f"node1 (10.77.0.1): exit code 3 {began} (it printed: not today): {broken}",
        f"node2 (10.77.0.2): no answer within 10 s {began}: {broken}",
        f"node3 (10.77.0.3): more than 4 MiB of output {began} (it printed: no): {broken}",
        "node4 (10.77.0.4): more than 4 MiB of output",
    ]
    assert found.ended[3] - found.began[3] < 10, "what is too long is not read to its end"


def test_neither_ssh_agent_nor_environment_is_forwarded(lan: Lan) -> None:
    (lan.login.home / ".ssh" / "config").write_text("Host *\n  ForwardAgent yes\n  SendEnv *\n")
    found = probe(lan, at(lan.nodes[0]), argv=("sh", "-c", "echo [$SSH_AUTH_SOCK] [$FSDPCTL_HOME]"))
    assert found.stdout == ["[] []\n"]


def test_a_changed_host_key_is_refused_with_both_fingerprints_and_the_line(lan: Lan, tmp_path: Path) -> None:
    node = lan.nodes[0]
    make_key(tmp_path / "older", "")
    known_hosts(lan).write_text(f"# mine\n{node.address} {public(tmp_path / 'older')}\n")
    (error,) = probe(lan, at(node)).errors
    assert error is not None
    assert f"{known_hosts(lan)}:2" in error
    assert fingerprint(tmp_path / "older") in error and fingerprint(node.dir / "host_key") in error
    assert "Accepted" not in node.log.read_text().splitlines()[-1]


def test_an_unknown_and_a_revoked_host_key_are_refused(lan: Lan) -> None:
    node = lan.nodes[0]
    known_hosts(lan).write_text("")
    (error,) = probe(lan, at(node)).errors
    assert error is not None and "is unknown" in error and fingerprint(node.dir / "host_key") in error
    known_hosts(lan).write_text(
        f"{node.address} {public(node.dir / 'host_key')}\n@revoked * {public(node.dir / 'host_key')}\n"
    )
    (error,) = probe(lan, at(node)).errors
    assert error is not None and f"revoked by {known_hosts(lan)}:2" in error


def test_known_hosts_entries_are_found_if_hashed_and_by_port(lan: Lan) -> None:
    node = lan.nodes[0]
    known_hosts(lan).write_text(f"[{node.address}]:2222 {public(node.dir / 'host_key')}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known_hosts(lan))], check=True, capture_output=True)
    with sshd(node, 2222):
        found = probe(lan, at(node, 2222), at(node))
    assert found.stdout[0] == "node1\n", found.errors
    assert found.errors[1] is not None and "unknown" in found.errors[1], "port 22 is another host"


def test_the_known_one_of_several_host_keys_is_used(lan: Lan, tmp_path: Path) -> None:
    node = lan.nodes[0]
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", str(node.dir / "rsa_key")], check=True
    )
    known_hosts(lan).write_text(f"[{node.address}]:2223 {public(node.dir / 'rsa_key')}\n")
    with sshd(node, 2223, f"HostKey={node.dir}/rsa_key"):
        found = probe(lan, at(node, 2223))
    assert found.stdout == ["node1\n"], found.errors


def test_a_refused_login_names_the_user_and_the_tried_keys(lan: Lan) -> None:
    node = lan.nodes[0]
    (node.dir / "authorized_keys").rename(node.dir / "taken-away")
    try:
        found = probe(lan, at(node), at(lan.nodes[1]))
    finally:
        (node.dir / "taken-away").rename(node.dir / "authorized_keys")
    assert found.stdout[1] == "node2\n"
    assert found.errors[0] == (
        f"node1 (10.77.0.1): refuses user root; tried {lan.login.home}/.ssh/id_ed25519 and the agent's keys"
    )


def test_unreachable_hosts_are_reported_within_the_timeout_and_delay_no_other(lan: Lan) -> None:
    dead, refusing, silent, well = lan.nodes
    dead.pull_cable()
    ears = "import socket, time; s = socket.create_server(('', 2022)); print('up', flush=True); time.sleep(60)"
    listener = subprocess.Popen(silent.command(sys.executable, "-c", ears), stdout=subprocess.PIPE)
    assert listener.stdout is not None and listener.stdout.readline() == b"up\n"
    lines = [f"[{silent.address}]:2022 {public(silent.dir / 'host_key')}\n"]
    known_hosts(lan).write_text(known_hosts(lan).read_text() + "".join(lines))
    try:
        found = probe(
            lan, at(dead), at(refusing, 2999), at(silent, 2022), at(well), ("gone", "no-such-host.invalid", 22)
        )
    finally:
        subprocess.run(["pkill", "-KILL", "-P", str(listener.pid)], check=False)
        listener.kill()
        listener.communicate()
    assert found.errors[0] == "node1 (10.77.0.1): no answer within 3 s"
    assert found.errors[1] == "node2 (10.77.0.2:2999): Connection refused"
    assert found.errors[2] == "node3 (10.77.0.3:2022): accepts the connection and sends nothing for 3 s"
    assert found.stdout[3] == "node4\n"
    assert found.errors[4] is not None and found.errors[4].startswith("gone (no-such-host.invalid): ")
    assert max(found.began) < min(found.ended[0], found.ended[2]), "none of them waited for another one's limit"
    assert max(found.ended) - min(found.began) < 30, "half of what the silent one would take"


def test_a_command_that_does_not_end_times_out(lan: Lan) -> None:
    found = probe(lan, at(lan.nodes[0]), argv=("sleep", "60"), timeout_s=1)
    assert found.errors == ["node1 (10.77.0.1): no answer within 1 s"]
    assert found.ended[0] - found.began[0] < 30, "half of what the command would take"


def test_many_connections_at_once_get_through_a_busy_sshd(lan: Lan) -> None:
    """As many connections to one sshd as a gateway sees, with fewer starting at once than sshd's default allows."""
    node = lan.nodes[0]
    known_hosts(lan).write_text(f"[{node.address}]:2225 {public(node.dir / 'host_key')}\n")
    with sshd(node, 2225, "MaxStartups=4:80:8"):
        found = probe(lan, *[at(node, 2225)] * 40, timeout_s=10)
        dropped = (node.dir / "sshd-2225.log").read_text().count("drop connection")
    assert found.stdout == ["node1\n"] * 40, [error for error in found.errors if error]
    assert dropped, "this sshd was never too busy, so nothing was shown"


def test_proxy_jump_chain_of_an_alias_in_an_included_config(lan: Lan) -> None:
    first, second, third, _ = lan.nodes
    (lan.login.home / ".ssh" / "config").write_text("Include more.conf\n")
    (lan.login.home / ".ssh" / "more.conf").write_text(
        f"Host far\n  HostName {third.address}\n  Port 2226\n  ProxyJump {first.address},{second.address}\n"
        "Host direct\n  HostName 10.77.0.4\n  ProxyJump none\n"
    )
    known_hosts(lan).write_text(
        known_hosts(lan).read_text() + f"[{third.address}]:2226 {public(third.dir / 'host_key')}\n"
    )
    with sshd(third, 2226):
        argv = ("sh", "-c", "hostname; echo $SSH_CLIENT")
        found = probe(lan, ("far", "far", 22), ("direct", "direct", 22), argv=argv, timeout_s=10)
        assert found.stdout[0] is not None, found.errors
        assert found.stdout[0].startswith(f"node3\n{second.address} "), "it came by the second jump"
        assert found.stdout[1] is not None and found.stdout[1].startswith("node4\n")
        lan.know(second, third)
        (error,) = probe(lan, ("far", "far", 22), timeout_s=10).errors
    assert error is not None and "Host key verification failed" in error, "each hop is verified"
