"""Rules about the GPUs, processors and programs of each node."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.subject import Subject
from fsdpctl.specs.environment import ContainerEnvironment
from fsdpctl.specs.lint import RuleId

SBATCH = "https://slurm.schedmd.com/sbatch.html"
# Compiled when they are first needed: most jobs have neither arguments nor setup lines.
WORKERS = r"(?i)-*(data[._-]?)?(loader[._-]?)?(num[_-])?(workers|dataloader[_-]num[_-]workers)"
INSTALL = r"\b(pip3?|uv pip|conda|mamba|apt|apt-get|dnf|yum) install\b"
OPEN_MODE = r"\bchmod\s+(-\w+\s+)*([0-7]{0,3}[2367]|(?=[ugoa]*[oa])[ugoa]+[+=][rxXst]*w[rxXst]*)\b"


@rule(
    RuleId.IDLE_GPUS,
    "warning",
    what="Fewer ranks than GPUs on a node.",
    why="Each rank uses one GPU: the others are allocated, and paid for, and idle.",
    change="Remove `procs_per_node`, or lower `gpus_per_node`.",
    source="docs/profiles.md",
)
def idle_gpus(subject: Subject) -> Iterator[Found]:
    gpus = subject.gpus_of_node
    if gpus is not None and subject.has_gpus and subject.procs < gpus:
        yield Found("procs_per_node", f"{gpus - subject.procs} of {gpus} GPUs of each node have no rank")


@rule(
    RuleId.UNEVEN_GPUS,
    "warning",
    what="Nodes have different numbers of GPUs.",
    why="All nodes run the same number of ranks: `gpus_per_node`, or the GPUs of the smallest node. Larger nodes have"
    " idle GPUs, and a node with fewer GPUs than ranks fails its check.",
    change="Make a profile for each kind of node.",
    source="docs/profiles.md",
)
def uneven_gpus(subject: Subject) -> Iterator[Found]:
    nodes = subject.profile.nodes[: subject.nodes]
    counts = [node.gpus if node.gpus is not None else subject.profile.gpus_per_node or 0 for node in nodes]
    if subject.has_gpus and len(set(counts)) > 1:
        idle = sum(counts) - subject.world
        text = f"{min(counts)} to {max(counts)} GPUs a node, and {subject.procs} ranks on each"
        yield Found(f"nodes[{counts.index(max(counts))}].gpus", f"{text}: {idle} GPUs are idle" if idle > 0 else text)


@rule(
    RuleId.ONE_CPU,
    "warning",
    what="Slurm is asked for GPUs and not for processors.",
    why="By default Slurm gives one CPU to a task, and fsdpctl starts one task on each node: unless the site has"
    " another default (DefCpuPerGPU), all ranks of the node, their loaders and the threads that save share one core.",
    change="Set `backend.cpus_per_task`, to 8 or more for each GPU, or `backend.exclusive: true`.",
    source=f"{SBATCH}#OPT_cpus-per-task",
)
def one_cpu(subject: Subject) -> Iterator[Found]:
    slurm = subject.slurm
    if slurm is None or not subject.has_gpus or slurm.exclusive or slurm.cpus_per_task is not None:
        return
    if not any(option.startswith(("--cpus-per-gpu", "--exclusive", "--mincpus")) for option in slurm.extra):
        yield Found("backend.cpus_per_task", f"{subject.procs} ranks of a node may share one core")


@rule(
    RuleId.TOO_MANY_THREADS,
    "warning",
    what="Ranks have more threads than the node has processors for the run.",
    why="Threads of OpenMP wait for each other actively: more of them than cores make all of them slower.",
    change="OMP_NUM_THREADS x ranks of a node should not exceed `backend.cpus_per_task`.",
    source="https://docs.pytorch.org/docs/stable/notes/multiprocessing.html",
)
def too_many_threads(subject: Subject) -> Iterator[Found]:
    cpus, variable = subject.cpus_of_node, subject.variables.get("OMP_NUM_THREADS")
    if cpus is not None and variable is not None and variable.value.isdecimal():
        threads = int(variable.value) * subject.procs
        if threads > cpus:
            text = f"{subject.procs} ranks x {variable.value} threads share {cpus} CPUs"
            yield Found(variable.key, text)


@rule(
    RuleId.TOO_MANY_WORKERS,
    "warning",
    what="Ranks have more loader workers than the node has processors for the run.",
    why="Each rank starts its own workers. More of them than cores wait for each other, and each holds a copy of what"
    " it reads.",
    change="Workers x ranks of a node should not exceed `backend.cpus_per_task`.",
    source="https://docs.pytorch.org/docs/stable/data.html",
)
def too_many_workers(subject: Subject) -> Iterator[Found]:
    cpus = subject.cpus_of_node
    if cpus is None:
        return
    args = subject.job.args
    for number, argument in enumerate(args):
        option, equals, value = argument.partition("=")
        count = value if equals else "".join(args[number + 1 : number + 2])
        if re.fullmatch(WORKERS, option) and count.isdecimal() and int(count) * subject.procs > cpus:
            yield Found(f"args[{number}]", f"{subject.procs} ranks x {count} workers share {cpus} CPUs")


@rule(
    RuleId.MOVING_IMAGE,
    "warning",
    what="The container's image may change between two attempts.",
    why="A registry gives another image for the same name once the tag has moved: a run that restarts or resumes then"
    " continues with other versions, or nodes differ from each other.",
    change="Name a version or a digest (`@sha256:...`), or a file on a shared disk, which starts faster, too.",
    source="https://docs.docker.com/reference/cli/docker/image/pull/",
)
def moving_image(subject: Subject) -> Iterator[Found]:
    given = subject.profile.environment
    in_environment = isinstance(given, ContainerEnvironment)
    container = given if isinstance(given, ContainerEnvironment) else subject.slurm and subject.slurm.container
    if not container or container.image.startswith(("/", ".")) or container.image.endswith((".sif", ".sqsh")):
        return
    name = container.image.rpartition("/")[2].rpartition("#")[2]
    if "@sha256:" not in container.image and (":" not in name or name.endswith(":latest")):
        key = "environment.image" if in_environment else "backend.container.image"
        yield Found(key, f"{container.image} may be another image at the next attempt")


@rule(
    RuleId.SETUP_INSTALLS,
    "warning",
    what="`setup` installs packages.",
    why="These lines run on every node at every attempt: all nodes ask an index at once, a restart fails where it is"
    " not reachable, and versions may differ between nodes and attempts.",
    change="Install into a `venv` on a shared disk, or into the container's image, once.",
    source="docs/profiles.md",
)
def setup_installs(subject: Subject) -> Iterator[Found]:
    for number, line in enumerate(subject.profile.setup):
        if found := re.search(INSTALL, line):
            yield Found(f"setup[{number}]", f"{found[0]} runs on each node, at each attempt")


@rule(
    RuleId.WORLD_WRITABLE,
    "warning",
    what="`setup` lets every user of the nodes change files.",
    why="Another user can then replace what ranks read or run: data, checkpoints, an environment.",
    change="Give a group access (`chmod g+w`), not everybody.",
    source="docs/profiles.md",
)
def world_writable(subject: Subject) -> Iterator[Found]:
    for number, line in enumerate(subject.profile.setup):
        if found := re.search(OPEN_MODE, line):
            yield Found(f"setup[{number}]", f"{found[0]} lets every user of the nodes change files")
