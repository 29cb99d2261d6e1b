"""Plan a run's nodes from the hosts of a profile. Pure."""

from __future__ import annotations

from fsdpctl.backends.base import BackendPlan, Cluster
from fsdpctl.backends.ssh.profile_keys import SshSection
from fsdpctl.contract.plan import SshPlan

DEFAULT_PYTHON = "python3"


def plan_backend(keys: SshSection, cluster: Cluster) -> BackendPlan:
    """Return the first hosts of the profile as nodes, with the ssh settings of all hosts."""
    gpus = cluster.least_gpus
    outside = cluster.python or DEFAULT_PYTHON
    return BackendPlan(
        nodes=cluster.nodes[: cluster.num_nodes],
        device="cuda" if gpus else "cpu",
        gpus=gpus,
        python=cluster.container_python or outside,
        outside_python=outside,
        shared_disk=keys.shared_filesystem,
        ssh=SshPlan(keys.user, keys.connect_timeout, cluster.nodes, cluster.spares),
    )
