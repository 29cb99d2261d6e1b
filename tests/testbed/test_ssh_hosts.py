"""The testbed is what it claims to be: hosts of their own."""

from __future__ import annotations

from pathlib import Path

from tests.testbed.ssh_hosts import Lan

SSH = ("ssh", "-oBatchMode=yes", "-oConnectTimeout=2")


def test_each_host_has_its_own_name_boot_id_and_tmp(lan: Lan, tmp_path: Path) -> None:
    question = f"hostname; cat /proc/sys/kernel/random/boot_id; touch /tmp/$(hostname) {tmp_path}/$(hostname); ls /tmp"
    answers = [lan.login.run(*SSH, host.address, question).split() for host in lan.nodes]
    assert [answer[0] for answer in answers] == [host.name for host in lan.nodes]
    assert len({answer[1] for answer in answers}) == len(lan.nodes)
    assert all(
        host.name in answer and answer.count(host.name) == 2 for host, answer in zip(lan.nodes, answers, strict=True)
    )
    assert not any(other.name in answers[0] for other in lan.nodes[1:]), "/tmp is not shared"
    assert {path.name for path in tmp_path.iterdir()} == {host.name for host in lan.nodes}, "this directory is"
    assert all(host.processes() == "" for host in lan.nodes)


def test_a_dead_host_does_not_answer_and_gets_a_new_boot_id(lan: Lan) -> None:
    victim = lan.nodes[0]
    before = lan.login.run(*SSH, victim.address, "cat /proc/sys/kernel/random/boot_id")
    victim.die()
    told = lan.login.run("sh", "-c", f"{' '.join(SSH)} {victim.address} true 2>&1 || true")
    assert "timed out" in told or "No route to host" in told
    victim.boot()
    assert lan.login.run(*SSH, victim.address, "cat /proc/sys/kernel/random/boot_id") != before


def test_a_pulled_cable_can_be_plugged_in_again(lan: Lan) -> None:
    host = lan.nodes[1]
    host.pull_cable()
    assert "up" not in lan.login.run("sh", "-c", f"{' '.join(SSH)} {host.address} echo up 2>/dev/null || true")
    host.plug_cable()
    assert lan.login.run(*SSH, host.address, "echo up") == "up\n"
