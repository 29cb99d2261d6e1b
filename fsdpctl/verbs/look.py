"""Look at a cluster and write it as a profile."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.backends.slurm.environment import tool_environment
from fsdpctl.backends.slurm.job.scontrol import SlurmError
from fsdpctl.backends.slurm.resources import read_resources
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.user import user_name
from fsdpctl.discover.common import describe, find_common
from fsdpctl.discover.host_list import read_host_list
from fsdpctl.discover.hosts import SeenHost, look_at_hosts
from fsdpctl.discover.profile_text import write_local, write_ssh
from fsdpctl.discover.slurm import choose_partition, describe_partition, write_slurm
from fsdpctl.doctor.probe_requests import plan_nodes
from fsdpctl.errors import LaunchError
from fsdpctl.node.queries.describe_host import describe_host
from fsdpctl.specs.load import parse_profile
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.verbs.submit_host import runs_root_of, submit_host


@dataclass(frozen=True)
class Looked:
    """The text of a profile, what was seen, and what could not be; a line each."""

    text: str
    seen: tuple[str, ...]
    unseen: tuple[str, ...]


def look(
    name: str,
    hosts: str | None = None,
    hostfile: Path | None = None,
    trust: Callable[[str], None] | None = None,
) -> Looked:
    """Look at the given hosts over SSH; without any, at the Slurm cluster of this machine, or at this machine.

    `trust`: first store host keys that known_hosts does not have, each reported to this function. Raise UsageError, or
    LaunchError if nothing could be seen.
    """
    if hosts is not None or hostfile is not None:
        looked = _look_over_ssh(name, hosts, hostfile, trust)
    elif shutil.which("scontrol") is not None:
        looked = _look_at_slurm(name)
    else:
        looked = _look_here(name)
    parse_profile(looked.text, name)
    return looked


def _look_over_ssh(name: str, hosts: str | None, hostfile: Path | None, trust: Callable[[str], None] | None) -> Looked:
    user, nodes = read_host_list(hosts, hostfile)
    backend = {"kind": "ssh", **({"user": user} if user else {})}
    profile = ClusterProfile.model_validate({"name": name, "backend": backend, "nodes": nodes, "gpus_per_node": 0})
    plan = plan_nodes(profile, submit_host(profile, runs_root_of(profile), "fsdpctl-look", Path.cwd()))
    if trust is not None:
        get_backend(plan.backend).trust_hosts(plan, trust)
    seen = look_at_hosts(plan, nodes, sys.executable)
    failed = [_describe_failure(host) for host in seen if host.description is None]
    if len(failed) == len(seen):
        raise LaunchError(
            "no host could be seen:\n" + "\n".join(failed), hint="`ssh HOST` must work without a question"
        )
    common = find_common(seen, describe_host())
    described = [(host.node.id, host.description) for host in seen if host.description is not None]
    unseen = [
        *failed,
        *(f"{one}: {text}" for one, description in described for text in description.unseen),
        *(f"{host}: {text}" for host, text in common.differences),
    ]
    text = write_ssh(name, user, seen, common, user_name())
    return Looked(text, tuple(f"{one}: {describe(description)}" for one, description in described), tuple(unseen))


def _describe_failure(host: SeenHost) -> str:
    names_host = host.error.startswith(f"{host.node.address}:")
    return host.error if names_host else f"{host.node.id}: {host.error}"


def _look_at_slurm(name: str) -> Looked:
    try:
        partitions = read_resources(tool_environment())
    except SlurmError as error:
        raise LaunchError(
            str(error), hint="--hosts HOST,... looks at hosts over SSH; without --look a profile is copied"
        ) from None
    chosen = choose_partition(partitions)
    if chosen is None:
        raise LaunchError("no partition of this Slurm cluster has nodes that `scontrol show node` lists")
    others = [partition for partition in partitions if partition is not chosen]
    text = write_slurm(name, chosen, others, sys.executable)
    unseen = (f"nodes were not looked at: fsdpctl doctor {name} allocates two and does",)
    return Looked(text, tuple(describe_partition(partition) for partition in partitions), unseen)


def _look_here(name: str) -> Looked:
    here = describe_host()
    return Looked(write_local(name, here), (f"{here.hostname}: {describe(here)}",), here.unseen)
