"""What hosts have in common becomes a profile that loads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.profile_keys import SlurmSection
from fsdpctl.backends.slurm.resources import parse_resources
from fsdpctl.backends.ssh.profile_keys import SshSection
from fsdpctl.contract.host import Adapter, FileSystem, HostDescription
from fsdpctl.discover.common import describe, find_common
from fsdpctl.discover.host_list import read_host_list
from fsdpctl.discover.hosts import SeenHost
from fsdpctl.discover.profile_text import write_local, write_ssh
from fsdpctl.discover.slurm import choose_partition, describe_partition, write_slurm
from fsdpctl.errors import UsageError
from fsdpctl.specs.load import parse_profile
from fsdpctl.specs.profile import Node

SHARED = FileSystem("nfs4", "server:/export", "/shared")
HOST = HostDescription(
    hostname="gpu1",
    cpus=96,
    memory=2**40,
    numa_nodes=2,
    gpus=("NVIDIA H100",) * 8,
    interfaces=("eth0", "ib0"),
    interface="eth0",
    adapters=(Adapter("mlx5_0", "1", 400.0, False), Adapter("mlx5_1", "1", 400.0, False)),
    shared=(SHARED,),
    python="/shared/venv/bin/python",
    python_version="3.12.1",
    torch="2.13.0",
)
HERE = replace(HOST, gpus=(), adapters=(), python="/usr/bin/python3")


def seen(*descriptions: HostDescription | None) -> list[SeenHost]:
    nodes = [Node(id=f"gpu{n}", address=f"10.0.0.{n}") for n in range(1, len(descriptions) + 1)]
    return [
        SeenHost(node, found, "" if found else "no route to host")
        for node, found in zip(nodes, descriptions, strict=True)
    ]


def test_equal_hosts_become_a_whole_profile() -> None:
    hosts = seen(HOST, HOST)
    text = write_ssh("mine", None, hosts, find_common(hosts, HERE), "me")
    profile = parse_profile(text, "mine")
    assert isinstance(profile.backend, SshSection) and profile.backend.shared_filesystem
    assert [node.address for node in profile.nodes] == ["10.0.0.1", "10.0.0.2"]
    assert (profile.gpus_per_node, profile.gpu, profile.python) == (8, "h100-80", "/shared/venv/bin/python")
    network = profile.network
    assert (network.interface, network.ib_hcas, network.gbps) == ("eth0", ("mlx5_0", "mlx5_1"), 800.0)
    assert profile.runs_root == "/shared/me/fsdpctl-runs"


def test_where_hosts_differ_the_odd_one_is_named() -> None:
    odd = replace(HOST, gpus=HOST.gpus[:7], interface="eth1", torch=None, adapters=HOST.adapters[:1], shared=())
    hosts = seen(HOST, odd, HOST, None)
    common = find_common(hosts, HERE)
    assert dict.fromkeys(host for host, _ in common.differences) == {"gpu2": None}
    assert {text for _, text in common.differences} == {
        "has 7 GPUs, most have 8 GPUs",
        "has mlx5_0, most have mlx5_0, mlx5_1",
        "has 400 Gbit/s, most have 400 Gbit/s, 400 Gbit/s",
        "has no torch, most have torch 2.13.0",
    }
    text = write_ssh("mine", "trainer", hosts, common, "me")
    profile = parse_profile(text, "mine")
    assert isinstance(profile.backend, SshSection)
    assert (profile.backend.user, profile.backend.shared_filesystem) == ("trainer", False)
    assert [node.gpus for node in profile.nodes] == [None, 7, None]
    assert profile.network.interface == "auto"
    assert "  # not seen: no route to host\n  # - {id: gpu4, address: 10.0.0.4}" in text


@pytest.mark.parametrize("other", ["NVIDIA H200", "NVIDIA X1"])
def test_different_gpus_are_no_kind(other: str) -> None:
    hosts = seen(HOST, replace(HOST, gpus=(other,) * 8))
    text = write_ssh("mine", None, hosts, find_common(hosts, HERE), "me")
    assert parse_profile(text, "mine").gpu is None and "\n# gpu: " in text


def test_names_from_hosts_cannot_change_the_profile() -> None:
    """What a host reports ends up in values and comments only."""
    evil = "x\nbackend: local # \x1b[31m: {"
    host = replace(HOST, gpus=(evil,), python=f"/{evil}", shared=(FileSystem(evil, evil, f"/{evil}"),), interface=evil)
    hosts = [*seen(host), SeenHost(Node(id="b", address="b"), None, evil)]
    text = write_ssh("mine", None, hosts, find_common(hosts, host), "me")
    assert "\x1b" not in text and "\nbackend: local" not in text
    with pytest.raises(UsageError, match="control character"):
        parse_profile(text, "mine")


def test_this_machine_becomes_a_local_profile() -> None:
    profile = parse_profile(write_local("here", HOST), "here")
    assert (profile.backend.kind, profile.python) == ("local", HOST.python)
    assert describe(HOST).startswith("8 x NVIDIA H100, 96 CPUs in 2 NUMA nodes, 1024 GiB, interfaces eth0, ib0, mlx5_0")


def test_hosts_are_read_from_an_option_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# ours\nlogin slots=8\n\n  fd00::7 # by address\n")
    user, nodes = read_host_list("me@a,me@node[08-10,12]-ib,me@10.0.0.7:2222", None)
    assert user == "me"
    assert [node.address for node in nodes] == [
        "a",
        *("node08-ib", "node09-ib", "node10-ib", "node12-ib"),
        "10.0.0.7",
    ]
    assert (nodes[-1].port, nodes[0].port) == (2222, 22)
    assert [node.address for node in read_host_list(None, file)[1]] == ["login", "fd00::7"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no host was given"),
        (" , ", "no host was given"),
        ("-oProxyCommand=x", "a host is"),
        ("a b", "a host is written"),
        ("a;reboot", "letters, digits"),
        ("a,b,a", "given twice"),
        ("a:0", "is no port"),
        ("10.0.0.999", "not an IPv4"),
        ("me@a,b", "different users"),
        ("n[1-99999]", "at most 4096"),
        ("n[1-64][1-64][1-64]", "more than 4096"),
        ("n[3-1]", "no range"),
        ("n[1-]", "no range"),
    ],
)
def test_bad_hosts_are_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_host_list(text, None)


PARTITIONS = """\
PartitionName=cpu AllowGroups=ALL Default=YES GraceTime=0 MaxTime=UNLIMITED PreemptMode=OFF Nodes=c[1-2]
PartitionName=gpu AllowGroups=ALL Default=NO GraceTime=0 MaxTime=2-00:00:00 PreemptMode=OFF Nodes=g[1-3]
PartitionName=empty AllowGroups=ALL Default=NO MaxTime=1:00:00 Nodes=(null)
"""
_GPU = "CPUTot=96 AvailableFeatures={} ActiveFeatures=h100 Gres={} RealMemory=1031000 State={} Partitions=gpu,all"
NODES = "\n".join(
    [
        "NodeName=c1 CPUTot=64 AvailableFeatures=(null) Gres=(null) RealMemory=256000 State=IDLE Partitions=cpu,all",
        "NodeName=c2 CPUTot=64 AvailableFeatures=(null) Gres=(null) RealMemory=256000 State=IDLE Partitions=cpu,all",
        "NodeName=g1 " + _GPU.format("h100,ib", "gpu:h100:8(S:0-1),nvme:1", "MIXED"),
        "NodeName=g2 " + _GPU.format("h100,ib", "gpu:h100:8(S:0-1),nvme:1", "IDLE+DRAIN"),
        "NodeName=g3 " + _GPU.format("a100", "gpu:a100:4", "IDLE"),
    ]
)


def test_the_partition_with_most_gpus_becomes_a_slurm_profile() -> None:
    partitions = parse_resources(PARTITIONS, NODES)
    chosen = choose_partition(partitions)
    assert chosen is not None and chosen.name == "gpu"
    others = [partition for partition in partitions if partition is not chosen]
    text = write_slurm("mine", chosen, others, "/opt/python")
    profile = parse_profile(text, "mine")
    assert isinstance(profile.backend, SlurmSection)
    assert (profile.backend.partition, profile.backend.time, profile.gpus_per_node) == ("gpu", 172800, 8)
    assert "# partition: cpu  # partition cpu (default): c[1,2]: no GPU, 64 CPUs, 250 GiB; jobs of any length" in text
    assert "# g3: gpu:a100:4, 96 CPUs, 1007 GiB, a100" in text
    assert "# constraint: a100  # features: a100, h100, ib" in text
    assert describe_partition(chosen).endswith("jobs of 2d; not up: g2")


def test_a_cluster_without_nodes_has_no_partition_to_choose() -> None:
    assert choose_partition(parse_resources(PARTITIONS, "")) is None
    assert choose_partition(parse_resources("", NODES)) is None
