"""What hosts have in common, and where they differ. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from fsdpctl.contract.cards import Card, find_card
from fsdpctl.contract.findings import most_common
from fsdpctl.contract.host import FileSystem, HostDescription
from fsdpctl.discover.hosts import SeenHost

T = TypeVar("T")


@dataclass(frozen=True)
class Common:
    """What most hosts have; `differences` has a sentence for each host that has something else."""

    gpus: int
    gpu_name: str
    card: Card | None  # that all GPUs are
    interface: str | None  # through which all reach the first host
    hcas: tuple[str, ...]
    gbps: float | None
    is_roce: bool
    shared: tuple[FileSystem, ...]  # on all hosts and here
    python: str
    differences: tuple[tuple[str, str], ...]  # host and sentence


def find_common(seen: Sequence[SeenHost], here: HostDescription) -> Common:
    """Return what the hosts that were seen have in common. `here`: this machine."""
    hosts = {host.node.id: host.description for host in seen if host.description is not None}
    differences: list[tuple[str, str]] = []

    def usual(read: Callable[[HostDescription], T], what: Callable[[T], str]) -> T:
        values = {name: read(host) for name, host in hosts.items()}
        chosen = most_common(list(values.values()))
        differences.extend(
            (name, f"has {what(value)}, most have {what(chosen)}") for name, value in values.items() if value != chosen
        )
        return chosen

    gpus = usual(lambda host: len(host.gpus), lambda count: f"{count} GPUs")
    gpu_name = usual(lambda host: _summarize(host.gpus), lambda name: name or "no GPU")
    hcas = usual(lambda host: tuple(one.hca for one in host.adapters), lambda hcas: ", ".join(hcas) or "no adapter")
    rates = usual(
        lambda host: tuple(one.gbps for one in host.adapters),
        lambda rates: ", ".join(f"{rate or 0:g} Gbit/s" for rate in rates) or "no adapter",
    )
    python = usual(lambda host: host.python, str)
    usual(lambda host: host.torch, lambda torch: f"torch {torch}" if torch else "no torch")
    interfaces = {host.interface for host in hosts.values()}
    first = next(iter(hosts.values()))
    return Common(
        gpus=gpus,
        gpu_name=gpu_name,
        card=_one_card({name for host in hosts.values() for name in host.gpus}),
        interface=interfaces.pop() if len(interfaces) == 1 and None not in interfaces else None,
        hcas=hcas,
        gbps=sum(rate or 0 for rate in rates) if rates and None not in rates else None,
        is_roce=any(one.is_ethernet for one in first.adapters),
        shared=_shared_by_all([*hosts.values(), here]),
        python=python,
        differences=tuple(dict.fromkeys(differences)),
    )


def describe(host: HostDescription) -> str:
    """Return what was seen on one host, in one line."""
    adapters = ", ".join(f"{one.hca} {one.gbps or 0:g} Gbit/s" for one in host.adapters)
    shared = ", ".join(f"{one.mount} ({one.kind})" for one in host.shared)
    parts = [
        f"{len(host.gpus)} x {_summarize(host.gpus)}" if host.gpus else "no GPU",
        f"{host.cpus} CPUs in {host.numa_nodes} NUMA node{'s' if host.numa_nodes > 1 else ''}",
        f"{host.memory / 2**30:.0f} GiB",
        f"interfaces {', '.join(host.interfaces) or 'none'}",
        adapters or "no InfiniBand",
        f"shared {shared}" if shared else "no shared mount",
        f"{host.python} {host.python_version} with {f'torch {host.torch}' if host.torch else 'no torch'}",
    ]
    return ", ".join(parts)


def _summarize(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(names))


def _one_card(names: Set[str]) -> Card | None:
    """Return the kind of GPU that all are, by the names that drivers report; None if it is not one that is known."""
    cards = {find_card(name) for name in names}
    return cards.pop() if len(cards) == 1 else None


def _shared_by_all(hosts: Sequence[HostDescription]) -> tuple[FileSystem, ...]:
    first, *others = hosts
    return tuple(one for one in first.shared if all(one in other.shared for other in others))
