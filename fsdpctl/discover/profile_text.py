"""Write what was seen as a profile: YAML with a comment on each key that a user may change. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from fsdpctl.contract.cards import Card
from fsdpctl.contract.host import HostDescription
from fsdpctl.discover.common import Common
from fsdpctl.discover.hosts import SeenHost
from fsdpctl.schema.problems import one_line

_CARD = "kind of GPU, by which `estimate` and `submit` know what fits; all: docs/estimate.md"


def write_ssh(name: str, user: str | None, seen: Sequence[SeenHost], common: Common, own_user: str) -> str:
    """Return the profile of SSH hosts. Hosts that were not seen are in it as comments."""
    lines = [
        f"# {count(len(seen), 'host')} over SSH, written by looking at them. `fsdpctl doctor {name}` checks it.",
        f"name: {value(name)}",
        "",
        "backend:",
        "  kind: ssh                   # keys, jump hosts and ports come from your ~/.ssh/config",
        f"  user: {value(user)}" if user else "  # user: trainer             # login name; unset: what ssh would use",
        *_shared_lines(common),
        "",
        "# The first one is the head.",
        "nodes:",
        *(line for host in seen for line in _node_lines(host, common)),
        "# spares: []                  # machines that replace one that fails, written like `nodes`",
        "",
        f"gpus_per_node: {common.gpus}{comment(common.gpu_name)}",
        card_line(common.card),
        "",
        *_network_lines(common),
        "",
        *_root_lines(common, own_user),
        f"python: {value(common.python)}{comment('unset: python3 from the PATH')}",
    ]
    return joined(lines)


def write_local(name: str, here: HostDescription) -> str:
    """Return the profile of this machine."""
    gpu_names = " and ".join(dict.fromkeys(here.gpus))
    lines = [
        f"# This machine, {one_line(here.hostname)}, written by looking at it: every node is a group of processes.",
        f"name: {value(name)}",
        "backend: local",
        "allow_loopback: true          # all nodes are one machine, so they can connect over 127.0.0.1",
        "master_address: 127.0.0.1",
        "network: {interface: lo}",
        "# gpus_per_node: 4            # unset: the GPUs of this machine, divided over the nodes"
        + (f"; it has {len(here.gpus)} x {gpu_names}" if here.gpus else "; it has none"),
        f"python: {value(here.python)}{comment('unset: the one that runs fsdpctl')}",
    ]
    return joined(lines)


def _shared_lines(common: Common) -> list[str]:
    if common.shared:
        return ["  shared_filesystem: true     # `runs_root` is one directory that all hosts and this machine see"]
    return [
        "  # No file system of a server is mounted on all hosts and here, so each host has runs on its own disk.",
        "  shared_filesystem: false",
    ]


def _node_lines(host: SeenHost, common: Common) -> list[str]:
    node = host.node
    keys = [f"id: {value(node.id)}", f"address: {value(node.address)}"]
    if node.port != 22:
        keys.append(f"port: {node.port}")
    if host.description is not None and len(host.description.gpus) != common.gpus:
        keys.append(f"gpus: {len(host.description.gpus)}")
    line = f"- {{{', '.join(keys)}}}"
    return [f"  {line}"] if host.description is not None else [f"  # not seen: {one_line(host.error)}", f"  # {line}"]


def _network_lines(common: Common) -> list[str]:
    lines = ["network:"]
    if common.interface is not None:
        lines.append(f"  interface: {value(common.interface)}{comment('all hosts reach the head through it')}")
    else:
        lines.append("  interface: auto             # the interface that routes to the head: its name differs")
    if common.hcas:
        lines.append("  # Leave out adapters that are for storage: `nvidia-smi topo -m` shows which are near the GPUs.")
        lines.append(f"  ib_hcas: [{', '.join(map(value, common.hcas))}]")
    if common.is_roce:
        lines.append("  # ib_gid_index: 3           # RoCE: if NCCL chooses the wrong one; `show_gids` lists them")
    rate = "all adapters of a node in Gbit/s; `bench nccl` compares with it"
    lines.append(
        f"  gbps: {common.gbps:g}{comment(rate)}" if common.gbps else f"  # gbps: 100                 # {rate}"
    )
    return lines


def card_line(card: Card | None) -> str:
    """Return the key of a kind of GPU, as a comment where it is not known."""
    return f"gpu: {card.name}{comment(_CARD)}" if card is not None else f"# gpu: h100-80                # {_CARD}"


def _root_lines(common: Common, own_user: str) -> list[str]:
    if not common.shared:
        return ["# runs_root: /scratch/me/runs    # on the disk of each host; unset: $FSDPCTL_HOME/runs"]
    first, *others = common.shared
    lines = [f"# Shared by all: {', '.join(f'{one.mount} ({one.kind})' for one in common.shared)}"] if others else []
    root = f"{first.mount.rstrip('/')}/{own_user}/fsdpctl-runs"
    return [
        *lines,
        f"runs_root: {value(root)}{comment(f'{first.kind}, {first.source}; CHANGE if not yours')}",
    ]


def comment(text: str) -> str:
    return f"  # {one_line(text)}" if text else ""


def value(text: str) -> str:
    """Return text as a YAML scalar that is read back as the same text."""
    dumped = yaml.safe_dump(text, default_flow_style=True, width=10**6, allow_unicode=False)
    return dumped.removesuffix("\n...\n").rstrip("\n")


def count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def joined(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
