"""The node check: the conditions on this node for ranks to start. `fsdpctl doctor` runs the same checks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from fsdpctl.contract import Cause
from fsdpctl.contract.findings import Check, Finding, Result, fail, ok
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.checks.gpus import check_gpus
from fsdpctl.node.checks.limits import check_limits
from fsdpctl.node.checks.network import check_infiniband, check_interface
from fsdpctl.node.checks.packages import check_packages, needed_packages
from fsdpctl.node.checks.storage import check_storage


class NodeCheckError(Exception):
    """This node cannot run ranks; the message lists all reasons."""

    def __init__(self, message: str, cause: Cause = Cause.NODE_CHECK) -> None:
        super().__init__(message)
        self.cause = cause


def check_node(plan: LaunchPlan, node_dir: Path) -> list[Finding]:
    """Raise NodeCheckError with everything that would crash or hang ranks here; return warnings and unknowns."""
    findings = inspect(plan, NodePaths(node_dir).node_rank, node_dir)
    failures = [finding for finding in findings if finding.result is Result.FAIL]
    if failures:
        message = "; ".join(f"{failure.reason} ({failure.fix})" for failure in failures)
        is_of_packages = all(failure.check is Check.PACKAGES for failure in failures)
        raise NodeCheckError(message, Cause.PACKAGE if is_of_packages else Cause.NODE_CHECK)
    return [finding for finding in findings if finding.result is not Result.OK]


def inspect(plan: LaunchPlan, node_rank: int, directory: Path) -> list[Finding]:
    """Return all findings about this node alone, mostly within seconds. Programs that may not answer have a time limit
    each. `directory` is where the run writes.
    """
    env, run = rank_env(plan, node_rank), RunPaths.of(plan.run_dir)
    return [
        check_python(plan.python, env),
        check_packages(plan.python, needed_packages(plan.entry, run), env, plan.report_to if node_rank == 0 else ()),
        *check_gpus(plan, env),
        *check_infiniband(plan, env),
        check_interface(plan.interface),
        *check_limits(plan),
        *check_storage(directory),
    ]


def rank_env(plan: LaunchPlan, node_rank: int) -> dict[str, str]:
    """Return the environment in which this node's ranks will look for programs and GPUs."""
    return {**os.environ, **plan.env, **plan.nodes[node_rank].env}


def check_python(python: str, env: Mapping[str, str]) -> Finding:
    if (found := shutil.which(python, path=env.get("PATH"))) is None:
        fix = "create it on this node, or change `environment` of the profile (or `venv`, `python`)"
        return fail(Check.PYTHON, f"the profile's python does not exist here: {python}", fix)
    return ok(Check.PYTHON, found)
