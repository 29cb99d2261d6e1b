"""doctor: is every node of a cluster fit for a run?"""

from __future__ import annotations

import secrets
from pathlib import Path

from fsdpctl.doctor.examine import Examined, examine
from fsdpctl.doctor.reach import open_reach
from fsdpctl.doctor.request import plan_all_nodes
from fsdpctl.specs.model import ClusterProfile
from fsdpctl.verbs.submit import runs_root_of, site_of


def examine_cluster(profile: ClusterProfile) -> list[Examined]:
    """Look at all nodes of a profile together. Leaves nothing behind on any of them."""
    site = site_of(profile, runs_root_of(profile), f"fsdpctl-doctor-{secrets.token_hex(4)}", Path.cwd())
    plan = plan_all_nodes(profile, site)
    with open_reach(profile, plan) as reach:
        return examine(plan, reach)
