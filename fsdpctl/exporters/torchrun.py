"""A shell script with torchrun, to start on each node."""

from __future__ import annotations

import shlex

from fsdpctl.commands.container import enter
from fsdpctl.exporters.exportable import Exportable, Exported, torchrun_options
from fsdpctl.exporters.shell_text import RUN_CONFIG, Expression, exports, join, require_secrets, write_config


def write(export: Exportable) -> Exported:
    """Return the script: without arguments on one node, with node rank and the head's address on several."""
    plan = export.plan
    rendezvous = _rendezvous(export)
    command = [*enter(plan), plan.python, "-m", "torch.distributed.run", *torchrun_options(export), *rendezvous]
    lines = [
        "#!/bin/bash",
        f"# {export.name}: {_usage(export)}",
        "set -e",
        *_arguments(export),
        *require_secrets(plan.pass_env),
        *plan.setup,  # under `set -e` alone, as in a run: they may use unset variables
        "set -uo pipefail",
        *exports(export.env()),
        *write_config(export, f'"${{RUN_DIR:-$PWD/{export.name}}}"'),
        f"exec {join([*command, f'--max-restarts={plan.restarts}', *export.program(RUN_CONFIG)])}",
    ]
    return Exported("\n".join(lines) + "\n", (*export.notes(), *_notes(export)))


def _usage(export: Exportable) -> str:
    if export.num_nodes == 1:
        return "bash FILE"
    return f"on each of {export.num_nodes} nodes: bash FILE NODE_RANK [HEAD_ADDRESS]"


def _arguments(export: Exportable) -> list[str]:
    if export.num_nodes == 1:
        return []
    plan = export.plan
    head = plan.head.address or plan.nodes[0].address
    default = f":-{shlex.quote(head)}" if head else ":?the address of the head is missing"
    return ['node_rank="${1:?the node rank is missing}"', f'head="${{2{default}}}"']


def _rendezvous(export: Exportable) -> list[str]:
    if export.num_nodes == 1:
        return ["--standalone"]
    node_rank, head = Expression('--node-rank="$node_rank"'), Expression('--master-addr="$head"')
    return [node_rank, head, f"--master-port={export.plan.ports.first}"]


def _notes(export: Exportable) -> list[str]:
    notes = []
    if export.plan.time_limit_s is not None:
        notes.append("torchrun has no time limit: `timeout` does")
    if export.plan.restarts and export.num_nodes > 1:
        notes.append("after a failed node, start the script on all nodes again")
    return notes
