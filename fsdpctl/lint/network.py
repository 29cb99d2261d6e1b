"""Rules about the network between nodes, the links within them, and the rendezvous."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.subject import Subject
from fsdpctl.specs.lint import RuleId

NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
NETWORKS = "docs/networks.md"
EPHEMERAL = range(32_768, 61_000)
"""Linux's default of net.ipv4.ip_local_port_range."""
LOCAL_INTERFACES = ("lo", "docker", "virbr", "veth", "br-", "cni", "flannel", "podman", "lxc")


def is_local_interface(name: str) -> bool:
    """Return whether an interface leads to no other machine."""
    first = name.lstrip("=").partition(",")[0].partition(":")[0]
    return first == "lo" or first.startswith(LOCAL_INTERFACES[1:])


def is_loopback(address: str) -> bool:
    """Return whether an address or name means the machine itself, or is valid on one link only."""
    if address.lower() in ("localhost", "localhost.localdomain", "ip6-localhost"):
        return True
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified


@rule(
    RuleId.IB_DISABLED,
    "warning",
    what="InfiniBand is disabled in a profile that has InfiniBand adapters.",
    why="NCCL_IB_DISABLE=1 makes NCCL use TCP: at a fraction of the rate, through the processors and host memory. It"
    " is often left over from looking for an error.",
    change="Remove NCCL_IB_DISABLE.",
    source=f"{NCCL}#nccl-ib-disable",
)
def ib_disabled(subject: Subject) -> Iterator[Found]:
    network = subject.profile.network
    has_ib = network.ib_hcas or network.interface.startswith("ib") or "NCCL_IB_HCA" in subject.variables
    if has_ib and subject.has_gpus and subject.has_network and subject.is_on("NCCL_IB_DISABLE"):
        text = "NCCL uses TCP between the nodes, though the profile has InfiniBand"
        yield Found(subject.variables["NCCL_IB_DISABLE"].key, text)


@rule(
    RuleId.NVLINK_DISABLED,
    "warning",
    what="Direct copies between the GPUs of a node are disabled.",
    why="Without P2P, NCCL copies between the GPUs of a node through host memory, and not over NVLink or PCIe. Without"
    " shared memory GPUs that have no P2P use the network, within the node.",
    change="Remove the variable; where P2P fails, `nvidia-smi topo -p2p rw` shows between which GPUs.",
    source=f"{NCCL}#nccl-p2p-disable",
)
def nvlink_disabled(subject: Subject) -> Iterator[Found]:
    if not subject.has_gpus or subject.procs == 1:
        return
    if subject.is_on("NCCL_P2P_DISABLE"):
        text = "NCCL_P2P_DISABLE: GPUs of a node copy through host memory, not over NVLink"
        yield Found(subject.variables["NCCL_P2P_DISABLE"].key, text)
    if subject.is_on("NCCL_SHM_DISABLE"):
        text = "NCCL_SHM_DISABLE: GPUs of a node without P2P use the network"
        yield Found(subject.variables["NCCL_SHM_DISABLE"].key, text)
    level = subject.variables.get("NCCL_P2P_LEVEL")
    if level is not None and level.value in ("LOC", "0"):
        text = "NCCL_P2P_LEVEL=LOC: GPUs of a node copy through host memory, not over NVLink"
        yield Found(level.key, text)


@rule(
    RuleId.FORCED_ALGORITHM,
    "advice",
    what="An algorithm or protocol of NCCL is forced.",
    why="NCCL chooses by message size, by number of ranks and by hardware. One choice for all sizes makes some of them"
    " slower, and may hide an algorithm of a newer version.",
    change="Remove the variable, unless a measurement on this cluster is the reason.",
    source=f"{NCCL}#nccl-algo",
)
def forced_algorithm(subject: Subject) -> Iterator[Found]:
    for name in ("NCCL_ALGO", "NCCL_PROTO"):
        if subject.has_gpus and subject.world > 1 and name in subject.variables:
            yield Found(
                subject.variables[name].key, f"{name} is {subject.variables[name].value} for every message size"
            )


@rule(
    RuleId.LOCAL_INTERFACE,
    "warning",
    what="Several nodes are to connect over an interface that leads to no other machine.",
    why="The loopback interface and the bridges of containers and virtual machines have addresses that are valid on"
    " their node only: ranks wait for each other until a time-out.",
    change="`network.interface: auto`, or the name of the interface between the nodes, like `ib0`.",
    source=NETWORKS,
)
def local_interface(subject: Subject) -> Iterator[Found]:
    if not subject.has_network or subject.profile.allow_loopback:  # the nodes are declared to be one machine
        return
    if is_local_interface(subject.profile.network.interface):
        yield Found("network.interface", f"{subject.profile.network.interface} leads to no other node")
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        variable = subject.variables.get(name)
        if variable is not None and is_local_interface(variable.value):
            yield Found(variable.key, f"{name}={variable.value} leads to no other node")


@rule(
    RuleId.INTERFACE_IN_ENV,
    "advice",
    what="The interface is set by variables instead of the profile.",
    why="`network.interface` sets it for NCCL, gloo and the rendezvous together, and each node finds the name of its"
    " own interface. A variable overrides one of them: the others still use another network.",
    change="Set `network.interface`, and remove the variable.",
    source=NETWORKS,
)
def interface_in_env(subject: Subject) -> Iterator[Found]:
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        variable = subject.variables.get(name)
        if variable is not None and subject.has_network and not is_local_interface(variable.value):
            yield Found(variable.key, f"{name} overrides network.interface ({subject.profile.network.interface})")


@rule(
    RuleId.LOOPBACK_HEAD,
    "warning",
    what="The rendezvous of several nodes is at an address of one node only.",
    why="On each node 127.0.0.1 is the node itself, so every node waits for its own rendezvous.",
    change="Remove `master_address`: the head publishes its address on `network.interface`.",
    source=NETWORKS,
)
def loopback_head(subject: Subject) -> Iterator[Found]:
    address = subject.profile.master_address
    if address is None or not subject.has_network or subject.profile.allow_loopback:
        return
    if is_loopback(address):
        yield Found("master_address", f"{subject.nodes} nodes cannot reach the head at {address}")


@rule(
    RuleId.LOOPBACK_ALLOWED,
    "warning",
    what="The check that finds loopback addresses is switched off for several machines.",
    why="`allow_loopback` is for nodes that are all one machine. On others it lets a run start with a head that no"
    " other node can reach, as where /etc/hosts maps the host name to 127.0.1.1.",
    change="Remove `allow_loopback`.",
    source=NETWORKS,
)
def loopback_allowed(subject: Subject) -> Iterator[Found]:
    hosts = {node.address for node in subject.profile.nodes[: subject.nodes]}
    if subject.profile.allow_loopback and subject.has_network and len(hosts) != 1:
        yield Found("allow_loopback", f"{subject.nodes} nodes may start with a head that only itself can reach")


@rule(
    RuleId.EPHEMERAL_PORTS,
    "advice",
    what="The ports of the rendezvous are in the range from which the kernel gives ports to clients.",
    why="Any outgoing connection of the head may hold one of them when the rendezvous opens, and NCCL's own"
    " connections use that range.",
    change="Choose `ports` outside of 32768-60999; the default is 24000-24999.",
    source=NETWORKS,
)
def ephemeral_ports(subject: Subject) -> Iterator[Found]:
    ports = subject.profile.ports
    if subject.has_network and ports.first < EPHEMERAL.stop and ports.last >= EPHEMERAL.start:
        yield Found("ports.first", f"{ports.first}-{ports.last} overlap the kernel's 32768-60999")
