"""docs/import.md: how to come from other launchers and how to leave, with a table of each kind's keys from the code."""

from __future__ import annotations

from docs.tables import FOOT, row
from fsdpctl.importers.table import KINDS, Kind
from fsdpctl.other_launchers.carry import Row
from fsdpctl.other_launchers.shell.batch_options import PROFILE_KEYS, WHY

INTRO = """\
# Import and export

`fsdpctl jobs import FILE` makes a job of a file of another launcher or trainer, and `fsdpctl jobs export JOB --to X`
makes a file of another launcher of a job. Nothing in a file is executed, and no other file is opened that it names.

    fsdpctl jobs import fsdp.yaml --script train.py -o jobs/mine.yaml
    fsdpctl jobs import ds_config.json --from llm7b
    fsdpctl jobs import train.sbatch -o jobs/mine.yaml --profile-out cluster_profiles/mine.yaml
    fsdpctl jobs export mine --profile slurm-h100 --nodes 4 --to sbatch -o mine.sbatch

## What is imported

What a file is, is found from its keys; `--kind` names it where that is not enough.

| file | your own script | with `--from JOB` |
| --- | --- | --- |
| Accelerate, YAML or JSON | gets the variables that `accelerate launch` would set | settings of FSDP, precision |
| DeepSpeed, JSON | reads the file itself: `--deepspeed FILE` | stage, batch, optimizer, schedule, precision |
| TrainingArguments, JSON or YAML | reads the file itself, as its only argument | `fsdp`, batch, optimizer, intervals |
| YAML of an FSDP trainer | reads the file itself: `--config FILE` | all keys that a job has, too |
| shell script, batch script | is the script of the command, with its arguments | time limit and nodes |

Without `--from` **the job runs your own script**, under torchrun. A configuration does not name it: `--script` does, or
you write it in place of `train.py`. With `--from JOB` the job is one of the bundled trainer: model, data and all that
the file does not have are those of JOB. A YAML file with all sizes of a model, steps, batch and learning rate becomes
such a job by itself.

What does not carry over is listed on stderr, each with its line and the reason. A line with CHANGE needs an edit before
the job can run, and is a comment in the new file, too. `--json` has all of it. What the file has of a cluster, such as
a partition, GPUs of a node or an address, is for a profile: `--profile-out FILE` creates one. A file that exists is
never replaced.

**A file that contradicts itself is refused**, with all problems at once and exit code 2: a world size that is not nodes
x ranks, a global batch that is not micro-batch x accumulation x ranks, two precisions, a misspelt strategy. `auto` and
variables of a shell are values that only the other program knows: they are named and left out.

## Scripts

One command alone needs no import: it can be the `command` of a job, which reads the configuration of Accelerate, too
([own-scripts.md](own-scripts.md#from-a-command-or-a-script)).

A script is read as text: statements, words and quotes as the shell has them. Exactly one command may start ranks:
`torchrun`, `python -m torch.distributed.run`, `accelerate launch`, `deepspeed`, or a Python script that srun starts
once for each rank. It may be behind `srun`, `env`, `numactl`, `timeout`, `uv run`, `conda run`, `apptainer exec` or
`bash -c`.

- Variables that the script sets to plain text are filled in, with defaults as in `${N:-8}` and sums and products of
  whole numbers. `$SLURM_NNODES` and the like have the values of the #SBATCH lines.
- Head address, port, node rank and rendezvous id are left out, whatever they are made of: fsdpctl finds them itself, so
  `$(scontrol show hostnames ...)` needs no value.
- Any other variable is named. In an argument it stays as it is written, marked CHANGE; in `env` it is left out.
- Unquoted `*`, `?`, `~`, `{a,b}` and classes like `[0-9]` in an argument are marked CHANGE: no shell expands the
  arguments of a job. The entrypoint is looked for where `cd` has gone, which a closed subshell undoes.
- `export NAME=value` becomes `env` of the job, NCCL_SOCKET_IFNAME the profile's interface. A variable that looks like a
  secret (`*_TOKEN`, `*_API_KEY`, ...) goes to `pass_env`: its value is written nowhere.
- `module load`, `ulimit`, `source /path/bin/activate` and a PATH that grows become `modules`, `setup` and `venv` of the
  profile; for `conda activate` the key to write is named. Other commands do not run, and are named.
"""

EXPORT = """\
## Export

| `--to` | what is written | what is not in it |
| --- | --- | --- |
| `torchrun` | a shell script to start on each node, with node rank and head | time limit, restarts of several nodes |
| `sbatch` | a batch script with the profile's options; srun starts torchrun on each node | restarts after failures |
| `accelerate` | a configuration for a script that uses Accelerate, FSDP 2 | batch, optimizer, data, `env` |
| `trainjob` | a TrainJob of Kubeflow Trainer (v1alpha1), runtime `torch-distributed` | image, restarts, `setup` |
| `jobset` | a JobSet (v1alpha2): one pod for each node, `restarts` as `maxRestarts` | image, `setup` |

The scripts need nothing of fsdpctl but, for a job of the bundled trainer, the packages `train` and `fsdpctl` on
PYTHONPATH, which they set. The run of the bundled trainer is then in a directory beside the script, `RUN_DIR` for
`torchrun`, and continues from its newest checkpoint if the script starts again there. There is no supervisor: no
restart, no check of nodes, no watch for hangs. Secrets of `pass_env` are required from the environment by name, or
taken from a Secret of Kubernetes; their values are written nowhere. What else is missing is listed on stderr.
"""

TABLES = """\
## Keys

The first column is the key of the other file, the second the key of the job or of its `trainer`, or `profile.` and the
key of the profile. "own: VARIABLE" is what your own script gets. Values behind "silent" need no note.
"""


def render() -> str:
    """Return the page: the texts, then a table for each kind of file."""
    tables = [table(kind) for kind in KINDS.values()]
    return "\n\n".join(part.strip() for part in (INTRO, EXPORT, TABLES, *tables, batch(), FOOT)) + "\n"


def table(kind: Kind) -> str:
    title = kind.title[0].upper() + kind.title[1:]
    lines = [f"### {title}", "", "| key | in a job | otherwise |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(row(f"`{found.key}`", target(found), reason(found)) for found in kind.rows)])


def target(found: Row) -> str:
    parts = [f"`{found.to.removeprefix('job.')}`"] if found.to else []
    parts += [found.decides] if found.decides else []
    parts += [f"own: {found.env}"] if found.env else []
    return "; ".join(parts)


def reason(found: Row) -> str:
    text = found.why
    if found.silent and text:
        text += f" (silent: {', '.join(map(str, found.silent))})"
    return text


def batch() -> str:
    lines = ["### Options of sbatch", "", "| option | in a job or profile | otherwise |", "| --- | --- | --- |"]
    own = {
        "--job-name": "`name`",
        "--nodes": "`nodes`",
        "--time": "`time_limit`",
        "--signal": "`stop_signal` and `grace`, unless it is for the batch script",
        "--gpus-per-node, --gpus, --gpus-per-task": "`profile.gpus_per_node`",
        "--gres": "`profile.backend.gres`, `profile.gpus_per_node`",
        "--ntasks-per-node, --ntasks": "`procs_per_node`, where srun starts a script for each rank",
        "--cpus-per-task": "`profile.backend.cpus_per_task`, times the tasks of a node",
        "--exclusive": "`profile.backend.exclusive`",
        "--no-requeue": "`profile.backend.max_requeues: 0`",
        "--comment": "`profile.backend.comment`",
        **{f"--{name}": f"`profile.backend.{name}`" for name in PROFILE_KEYS},
        "any other": "`profile.backend.extra`",
    }
    rows = [row(f"`{option}`", text, "") for option, text in own.items()]
    rows += [row(f"`--{option}`", "", why) for option, why in WHY.items() if not option.startswith("ntasks")]
    return "\n".join([*lines, *rows])
