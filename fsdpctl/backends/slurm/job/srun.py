"""Build the srun commands: of an attempt, one task on each node, a shell that executes the node's agent. Pure.

`--kill-on-bad-exit=0` keeps the step when one task fails, against common advice: the agents see each other fail within
a second and exit in order, with the first cause on disk. `--wait` ends the step if they do not.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping

from fsdpctl.commands.container import enter, step_options, task_setup
from fsdpctl.commands.environment import code_env
from fsdpctl.commands.setup_lines import lines_reporting_failure
from fsdpctl.commands.torchrun import agent_argv
from fsdpctl.contract import Env, NodeExit
from fsdpctl.contract.paths import AttemptPaths, HoldPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.supervise.agents import MOUNT_WAIT_S

OTHER_TASKS_S = 600
"""How long the other tasks may run after the first one has ended: longer than any healthy run needs to end."""

# Set for the batch script's own step, or set below as an option: `srun` would read it as an option of the user.
_NOT_FOR_SRUN = (
    *("SLURM_CPUS_PER_TASK", "SLURM_DISTRIBUTION", "SLURM_EXACT", "SLURM_KILL_BAD_EXIT", "SLURM_NPROCS"),
    *("SLURM_NTASKS", "SLURM_TRES_PER_TASK", "SLURM_WAIT", "SRUN_CPUS_PER_TASK"),
)

# $0 is the attempt's directory, "$@" the agent. Its output goes straight to a file on the node, not through srun.
_TASK = """\
export {node_rank}="$SLURM_NODEID"
run={run_dir}
test -d "$run" || echo "$run is not there yet on $SLURMD_NODENAME: waiting for up to {wait_s} s" >&2
for second in {{1..{wait_s}}}; do test -d "$run" || sleep 1; done
test -d "$run" || exit {fault}  # or mkdir would create it below the mount point
node="$0/node-$SLURM_NODEID"
mkdir -p -m 700 "$node"
exec >>"$node/agent.log" 2>&1 </dev/null
{setup}
{code}
exec "$@" --node-rank="$SLURM_NODEID"
"""


def srun_argv(plan: LaunchPlan, attempt: AttemptPaths) -> list[str]:
    """Return the srun command of an attempt."""
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
        *step_options(plan),
        "bash",
        "-c",
        _task(plan),
        str(attempt.root),
        *enter(plan),
        *agent_argv(plan.python, plan.run_dir, attempt.number),
    ]


def sweep_argv(attempt: AttemptPaths, node_rank: int, node: str) -> list[str]:
    """Return the srun command that ends every process of the run on one node, in a step beside others."""
    return [
        "srun",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={node}",
        "--mpi=none",
        "--cpu-bind=none",
        sys.executable,
        "-m",
        "fsdpctl.node.queries.agent_control",
        "end",
        f"--run-dir={attempt.run_dir}",
        f"--attempt={attempt.number}",
        f"--node-rank={node_rank}",
    ]


def keeper_argv(hold: HoldPaths, num_nodes: int) -> list[str]:
    """Return the srun command that starts the keeper of each node of a hold, in a step beside those of runs."""
    size = [f"--nodes={num_nodes}", f"--ntasks={num_nodes}", "--ntasks-per-node=1", "--distribution=block"]
    how = ["--mpi=none", "--cpu-bind=none"]
    keeper = [sys.executable, "-m", "fsdpctl.node.warm.keeper", str(hold.root)]
    return ["srun", "--overlap", *size, *how, *keeper]


def _task(plan: LaunchPlan) -> str:
    code = shlex.join(f"{name}={value}" for name, value in code_env(RunPaths.of(plan.run_dir)).items())
    return _TASK.format(
        node_rank=Env.NODE_RANK,
        run_dir=shlex.quote(plan.run_dir),
        wait_s=MOUNT_WAIT_S,
        fault=int(NodeExit.NODE_FAULT),
        setup="\n".join(lines_reporting_failure(task_setup(plan), '"$node/end.json"')),
        code=f"export {code}",  # again: a module or a container's image may set PYTHONPATH
    )


def step_env(batch: Mapping[str, str]) -> dict[str, str]:
    """Return the batch script's environment without options of srun."""
    return {name: value for name, value in batch.items() if name not in _NOT_FOR_SRUN}


def srun_env(batch: Mapping[str, str], attempt: AttemptPaths, preempt_grace_s: int) -> dict[str, str]:
    """Return srun's environment: the batch script's without options of srun, the attempt's number, the grace in s."""
    return {**step_env(batch), Env.ATTEMPT: str(attempt.number), Env.PREEMPT_GRACE: str(preempt_grace_s)}
