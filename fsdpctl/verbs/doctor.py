"""doctor: is every node of a cluster fit for a run?"""

from __future__ import annotations

import secrets
from pathlib import Path

from fsdpctl.doctor.examine import Examined, examine
from fsdpctl.doctor.reach import open_reach
from fsdpctl.doctor.request import plan_nodes
from fsdpctl.specs.model import ClusterProfile
from fsdpctl.verbs.submit import runs_root_of, site_of


def examine_cluster(profile: ClusterProfile, num_nodes: int | None = None) -> list[Examined]:
    """Look at all nodes of a profile together, or at the first `num_nodes`. Leaves nothing behind on any of them."""
    site = site_of(profile, runs_root_of(profile), f"fsdpctl-doctor-{secrets.token_hex(4)}", Path.cwd())
    with open_reach(profile, plan_nodes(profile, site, num_nodes)) as (plan, reach):
        return examine(plan, reach)
