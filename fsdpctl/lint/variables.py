"""Rules about environment variables of jobs and profiles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.secrets import find_secrets
from fsdpctl.lint.subject import Subject
from fsdpctl.specs.lint import RuleId

TORCH = "https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html"
REFERENCE = r"\$\{?\w+\}?"
VERBOSE = {
    "TORCH_DISTRIBUTED_DEBUG": ("DETAIL",),
    "NCCL_DEBUG": ("TRACE",),
    "TORCH_NCCL_DESYNC_DEBUG": ("1",),
    "TORCH_NCCL_NAN_CHECK": ("1",),
}
"""Variables, with the values that cost time in every step."""
VERBOSE_PARTS = {"ALL", "COLL", "CALL"}
"""Of NCCL_DEBUG_SUBSYS, at the level INFO."""
BLOCKING = {
    "CUDA_LAUNCH_BLOCKING": "the host waits for every kernel",
    "TORCH_NCCL_BLOCKING_WAIT": "the host waits for every collective, and nothing overlaps with it",
    "NCCL_BLOCKING_WAIT": "the host waits for every collective, and nothing overlaps with it",
}
UNWATCHED = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "ranks wait for ever for a peer that is gone",
    "TORCH_NCCL_ENABLE_MONITORING": "a rank whose watchdog is stuck is never ended",
}
RENAMED = {
    "PYTORCH_CUDA_ALLOC_CONF": "PYTORCH_ALLOC_CONF",
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING": "TORCH_NCCL_ENABLE_TIMING",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE",
}


@rule(
    RuleId.UNEXPANDED_VARIABLE,
    "warning",
    what="A value refers to a variable, as in a shell.",
    why="`env` and `args` are passed on as they are written: no shell expands them, so ranks get the dollar sign.",
    change="Write the value itself, or export the variable in a line of `setup`.",
    source="docs/jobs.md",
)
def unexpanded_variable(subject: Subject) -> Iterator[Found]:
    given = {variable.key: variable.value for variable in subject.variables.values()}
    given |= {f"args[{number}]": argument for number, argument in enumerate(subject.job.args)}
    secrets = {found.key for found in find_secrets(subject)}  # a password may have a dollar sign
    for key, value in given.items():
        if key not in secrets and (found := re.search(REFERENCE, value)):
            yield Found(key, f"{found[0]} is not expanded: ranks get it as text")


@rule(
    RuleId.DEBUG_LEFT_ON,
    "warning",
    what="Debugging that slows every step is switched on for several ranks.",
    why="At these levels each collective is compared over all ranks or written to a log: every step is slower, the"
    " more ranks the more, and the logs grow with every step.",
    change="Use `debug: info` for the first run on a cluster, `off` afterwards, and `--debug trace` for one short run.",
    source="docs/networks.md",
)
def debug_left_on(subject: Subject) -> Iterator[Found]:
    if subject.world == 1:
        return
    if subject.plan.debug == "trace":
        yield Found("debug", f"each collective of {subject.world} ranks is compared and logged: for a few steps only")
    for name, values in VERBOSE.items():
        variable = subject.variables.get(name)
        if variable is not None and variable.value.upper() in values:
            yield Found(variable.key, f"{name}={variable.value} slows every step of {subject.world} ranks")
    level, parts = subject.variables.get("NCCL_DEBUG"), subject.variables.get("NCCL_DEBUG_SUBSYS")
    has_log = subject.plan.debug == "info" or (level is not None and level.value.upper() == "INFO")
    if has_log and parts is not None and VERBOSE_PARTS & set(parts.value.upper().split(",")):
        yield Found(parts.key, f"NCCL writes a line for each collective of each of {subject.world} ranks")


@rule(
    RuleId.BLOCKING_LAUNCHES,
    "warning",
    what="The host waits for each kernel or collective.",
    why="A GPU is busy only if the host runs ahead of it. These variables are for finding the kernel of an error.",
    change="Remove the variable.",
    source="https://docs.pytorch.org/docs/stable/cuda_environment_variables.html",
)
def blocking_launches(subject: Subject) -> Iterator[Found]:
    for name, effect in BLOCKING.items():
        if subject.has_gpus and subject.is_on(name):
            yield Found(subject.variables[name].key, f"{name} is on: {effect}")


@rule(
    RuleId.IGNORED_ERRORS,
    "warning",
    what="Errors of NCCL do not end a rank.",
    why="With TORCH_NCCL_ASYNC_ERROR_HANDLING=0 a collective whose peer is gone waits for ever, and so do all other"
    " ranks. 3, torch's default, ends the rank at once.",
    change="Remove the variable.",
    source=TORCH,
)
def ignored_errors(subject: Subject) -> Iterator[Found]:
    for name, effect in UNWATCHED.items():
        variable = subject.variables.get(name)
        if variable is not None and variable.value == "0" and subject.has_gpus:
            yield Found(variable.key, f"{name}=0: {effect}")


@rule(
    RuleId.RENAMED_VARIABLE,
    "advice",
    what="A variable has its old name.",
    why="torch reads the old name for compatibility only, and some versions warn of it in each rank. Where both are"
    " set, one of them has no effect, and fsdpctl sets some of the new ones itself.",
    change="Rename it. The new names are those of torch 2.11 and newer.",
    source="https://docs.pytorch.org/docs/main/cuda_environment_variables.html",
)
def renamed_variable(subject: Subject) -> Iterator[Found]:
    for old, new in RENAMED.items():
        if old in subject.variables:
            yield Found(subject.variables[old].key, f"{old} is now {new}")


@rule(
    RuleId.DETERMINISTIC_LEFT_ON,
    "advice",
    what="Deterministic algorithms are switched on, on GPUs.",
    why="Deterministic kernels are slower, and some operations have none and fail. They are for comparing two runs to"
    " the bit.",
    change="Remove it after the comparison.",
    source="https://docs.pytorch.org/docs/stable/notes/randomness.html",
)
def deterministic_left_on(subject: Subject) -> Iterator[Found]:
    if not subject.has_gpus:
        return
    for name in ("CUBLAS_WORKSPACE_CONFIG", "FLASH_ATTENTION_DETERMINISTIC", "NVTE_ALLOW_NONDETERMINISTIC_ALGO"):
        is_wanted = not subject.is_on(name) if name.startswith("NVTE") else subject.is_on(name)
        if name in subject.variables and is_wanted:
            value = subject.variables[name].value
            yield Found(subject.variables[name].key, f"{name}={value} is for runs that are compared to the bit")
    if subject.job.trainer is not None and subject.job.trainer.deterministic:
        yield Found("trainer.deterministic", "deterministic: true is for runs that are compared to the bit")
    for number, argument in enumerate(subject.job.args):
        if argument.lower() in ("--deterministic", "--deterministic=true", "--deterministic=1", "--use-deterministic"):
            yield Found(f"args[{number}]", f"{argument} is for runs that are compared to the bit")


@rule(
    RuleId.VISIBLE_GPUS,
    "warning",
    what="CUDA_VISIBLE_DEVICES is set, for fewer GPUs than a node has ranks.",
    why="Each rank takes the GPU of its local rank. A rank for which none is visible fails at its start. Slurm and"
    " fsdpctl set the variable where it is needed.",
    change="Remove the variable; `gpus_per_node` and `procs_per_node` choose how many GPUs are used.",
    source="https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",
)
def visible_gpus(subject: Subject) -> Iterator[Found]:
    variable = subject.variables.get("CUDA_VISIBLE_DEVICES")
    if variable is None or not subject.has_gpus:
        return
    count = len([gpu for gpu in variable.value.split(",") if gpu.strip() not in ("", "-1")])
    if count < subject.procs:
        yield Found(variable.key, f"{count} of {subject.procs} ranks of a node see a GPU")
