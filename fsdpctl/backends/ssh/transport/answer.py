"""Commands for a host, and their answers: one line of JSON, or an error that explains other output."""

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


class NoRunDirectoryError(HostError):
    """The host does not have the run directory, or not yet."""


def module_argv(plan: LaunchPlan, run: RunPaths, module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of the run's own code, after the profile's setup lines."""
    settings = [f"{name}={value}" for name, value in code_env(run).items()]
    # Before Python starts: the byte code that it writes before its first line would be readable by all users.
    return with_setup(("umask 077", *plan.setup), ["env", *settings, plan.host_python, "-m", module, *arguments])


def read_answer(kind: type[T], answer: NodeAnswer, target: Target, plan: LaunchPlan) -> T:
    """Return the last line of a host's output as a `kind`. Raise HostError if it is none."""
    try:
        return decode(kind, json.loads(answer.stdout.splitlines()[-1]))
    except (IndexError, ValueError, CodecError):
        error = NoRunDirectoryError if _lacks_code(answer) else HostError
        raise error(f"{target}: {explain(answer, plan)}") from None


def explain(answer: NodeAnswer, plan: LaunchPlan) -> str:
    """Return why a host's output is not the expected JSON."""
    if _lacks_code(answer):
        return f"{plan.run_dir} {NOT_SHARED if plan.shared_disk else 'is not there'}"
    return explain_exit(answer.code, answer.stdout, answer.stderr, plan.host_python)


def _lacks_code(answer: NodeAnswer) -> bool:
    """Return whether Python did not find the run's copy of fsdpctl."""
    output = answer.stderr + answer.stdout
    return "No module named" in output and "fsdpctl" in output
