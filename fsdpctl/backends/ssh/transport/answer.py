"""A question to a host, and what it says to it: one line of JSON, or the reason why it is something else."""

from __future__ import annotations

import json
from typing import TypeVar

from fsdpctl.backends.base import NodeAnswer
from fsdpctl.backends.fanout import HostError, explain_exit
from fsdpctl.backends.ssh.transport.ssh_config import Target
from fsdpctl.commands.environment import code_env
from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.contract.codec import CodecError, decode
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.queries.agent_control import NOT_SHARED

T = TypeVar("T")


def module_argv(plan: LaunchPlan, run: RunPaths, module: str, *words: str) -> list[str]:
    """A module of the run's own code, after the profile's setup lines."""
    settings = [f"{name}={value}" for name, value in code_env(run).items()]
    # Not in the node's Python alone: what it compiles before its first line would be open to all.
    return with_setup(("umask 077", *plan.setup), ["env", *settings, plan.python, "-m", module, *words])


def read_answer(kind: type[T], answer: NodeAnswer, target: Target, plan: LaunchPlan) -> T:
    """The last line of what a host said. Raises HostError when that is no `kind`."""
    try:
        return decode(kind, json.loads(answer.stdout.splitlines()[-1]))
    except (IndexError, ValueError, CodecError):
        raise HostError(f"{target}: {explain(answer, plan)}") from None


def explain(answer: NodeAnswer, plan: LaunchPlan) -> str:
    """Why a host answered something else than JSON."""
    said = answer.stderr + answer.stdout
    if "No module named" in said and "fsdpctl" in said:
        return f"{plan.run_dir} {NOT_SHARED if plan.shared_disk else 'is not there'}"
    return explain_exit(answer.code, answer.stdout, answer.stderr, plan.python)
