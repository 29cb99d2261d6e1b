"""The srun command of one attempt: a task a node, each a shell that becomes the node's agent. Pure.

srun is told not to end the step when one task ends badly, against common advice: the agents see each other fail
within a second and leave in order, with the first cause on disk. `--wait` is the net below them.
"""

from __future__ import annotations

from collections.abc import Mapping

from fsdpctl.contract import Env
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.contract.plan import LaunchPlan

OTHER_TASKS_S = 60
"""How long the other tasks may live on after the first one has ended."""

# Of the batch script's own step, or an option of srun that we give: `srun` would take it as a wish of the user.
_NOT_FOR_SRUN = ("SLURM_CPUS_PER_TASK", "SLURM_DISTRIBUTION", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_KILL_BAD_EXIT")

# $0 is the attempt's directory, "$@" the agent. Its output goes straight to a file on the node, not through srun.
_TASK = """\
export {node_rank}="$SLURM_NODEID"
mkdir -p -m 700 "$0/node-$SLURM_NODEID"
exec >>"$0/node-$SLURM_NODEID/agent.log" 2>&1 </dev/null
set -e
{setup}
exec "$@" --node-rank="$SLURM_NODEID"
"""


def srun_argv(plan: LaunchPlan, attempt: AttemptPaths) -> list[str]:
    """What the batch script runs."""
    nodes = str(len(plan.nodes))
    return [
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        "--distribution=block",
        "--kill-on-bad-exit=0",
        f"--wait={OTHER_TASKS_S}",
        "--mpi=none",
        "--cpu-bind=none",  # a task's ranks share its cores; Slurm would bind all of them to one
        "bash",
        "-c",
        _TASK.format(node_rank=Env.NODE_RANK, setup="\n".join(plan.setup)),
        str(attempt.root),
        plan.python,
        "-m",
        "fsdpctl.node.agent",
        f"--run-dir={plan.run_dir}",
        f"--attempt={attempt.number}",
    ]


def srun_env(batch: Mapping[str, str], attempt: AttemptPaths) -> dict[str, str]:
    """The batch script's environment, and the part of the tag that all nodes share."""
    kept = {name: value for name, value in batch.items() if name not in _NOT_FOR_SRUN}
    return {**kept, Env.ATTEMPT: str(attempt.number)}
