"""A batch script of Slurm: one task on each node starts torchrun there."""

from __future__ import annotations

import shlex

from fsdpctl.backends.slurm.batch_script import format_time, quote_option
from fsdpctl.commands.container import enter, step_options, task_setup
from fsdpctl.exporters.exportable import NODE_RANK, Exportable, Exported, elsewhere, torchrun_options
from fsdpctl.exporters.shell_text import RUN_CONFIG, Expression, exports, join, require_secrets, write_config

TORCHRUN_GRACE_S = 30
"""How long torchrun waits for ranks to which it has passed a signal on."""


def write(export: Exportable) -> Exported:
    """Return the script. The bundled trainer's run is in a directory named by the job's id, which a requeue keeps."""
    export = elsewhere(export)
    plan = export.plan
    inside = task_setup(plan)
    lines = [
        "#!/bin/bash",
        *[f"#SBATCH {quote_option(option)}" for option in _options(export)],
        "",
        "set -e",
        *require_secrets(plan.pass_env),
        *([] if inside else plan.setup),  # under `set -e` alone, as in a run: they may use unset variables
        "set -uo pipefail",
        *exports({**_passed_signals(export), **export.env()}),
        *_rendezvous(export),
        *write_config(export, f'"$PWD/{export.name}-$SLURM_JOB_ID"'),
        f"exec {join(_command(export, inside))}",
    ]
    return Exported("\n".join(lines) + "\n", (*export.notes(), *_notes(export)))


def _options(export: Exportable) -> list[str]:
    plan, slurm = export.plan, export.plan.slurm
    limit = [f"--time={format_time(plan.time_limit_s)}"] if plan.time_limit_s is not None else []
    warning = [f"--signal={stop}@{plan.grace_s}"] if limit and (stop := _stop_signal(export)) else []
    gpus = [f"--gpus-per-node={export.gpus_per_node}"] if export.gpus_per_node else []
    return [
        f"--job-name={export.name}",
        f"--nodes={export.num_nodes}",
        "--ntasks-per-node=1",
        *limit,
        *warning,
        "--requeue" if slurm is not None and slurm.max_requeues else "--no-requeue",
        "--open-mode=append",
        "--output=%x-%j.log",
        *(gpus if slurm is None else slurm.options),
    ]


def _stop_signal(export: Exportable) -> str | None:
    """Return the signal on which the program saves; None for a script that has none."""
    if export.plan.stop_signal != "none":
        return export.plan.stop_signal
    return "TERM" if export.plan.entry.is_bundled_trainer else None


def _passed_signals(export: Exportable) -> dict[str, str]:
    """Return what makes torchrun pass on a signal that would end it."""
    stop = _stop_signal(export)
    return {} if stop in (None, "TERM", "INT") else {"PET_SIGNALS_TO_HANDLE": f"SIGTERM,SIGINT,SIG{stop}"}


def _rendezvous(export: Exportable) -> list[str]:
    """Return the lines that find the first node, and a port that is another one for each job."""
    plan = export.plan
    hosts = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
    first = f'"$({hosts} | sed -n 1p){plan.hostname_suffix}"'
    count = plan.ports.last - plan.ports.first + 1
    return [
        f"head={shlex.quote(plan.head.address) if plan.head.address else first}",
        f"port=$(({plan.ports.first} + SLURM_JOB_ID % {count}))",
    ]


def _command(export: Exportable, inside: tuple[str, ...]) -> list[str]:
    """Return the srun command. `inside`: lines that each task runs first; the node's rank is known only there."""
    plan = export.plan
    task = [*(["set -e", *inside] if inside else []), f'export {NODE_RANK}="$SLURM_NODEID"', 'exec "$@"']
    return [
        "srun",
        f"--nodes={export.num_nodes}",
        f"--ntasks={export.num_nodes}",
        "--ntasks-per-node=1",
        "--distribution=block",
        "--kill-on-bad-exit=1",
        "--mpi=none",
        "--cpu-bind=none",
        *step_options(plan),
        *("bash", "-c", "\n".join(task), "bash"),
        *enter(plan),
        *(plan.python, "-m", "torch.distributed.run"),
        *torchrun_options(export),
        Expression('--master-addr="$head"'),
        Expression('--master-port="$port"'),
        *export.program(RUN_CONFIG),
    ]


def _notes(export: Exportable) -> list[str]:
    plan, notes = export.plan, []
    if plan.slurm is None:
        notes.append("the profile is not of Slurm: add partition and account to the #SBATCH lines")
    if plan.restarts:
        notes.append(f"restarts ({plan.restarts}): no run restarts after a failure, only after a requeue by Slurm")
    if _stop_signal(export) and plan.grace_s > TORCHRUN_GRACE_S:
        notes.append(f"grace: torchrun kills ranks {TORCHRUN_GRACE_S} s after a signal")
    if not plan.entry.is_bundled_trainer:
        notes.append("submit it from the directory of the script: ranks start there, not in a copy")
    return notes
