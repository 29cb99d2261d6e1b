"""What a user has to do so that a script stops, resumes and reports: a line each, from what its text shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.contract import Env
from fsdpctl.own_scripts.facts import Facts, Framework

_ATTACHED = "nothing to do, fsdpctl gives it a callback"
_STOP = {
    Framework.TRAINER: f"{_ATTACHED} that saves and ends after a step",
    Framework.LIGHTNING: f"{_ATTACHED} that saves and ends after a step",
    Framework.ACCELERATE: "after each step `if stop_requested(): save_state(accelerator, step)`, then leave the loop;"
    " both are in fsdpctl.integrations.accelerate",
}
_RESUME = {
    Framework.TRAINER: "nothing to do, `train()` continues from the newest complete checkpoint of its output_dir",
    Framework.LIGHTNING: "nothing to do, `fit()` continues from the checkpoint of the last stop, or `last.ckpt`",
    Framework.ACCELERATE: "begin with `step = load_state(accelerator)` of fsdpctl.integrations.accelerate, and continue"
    " in epoch `step // len(loader)`, with `accelerator.skip_first_batches(loader, step % len(loader))`",
}
_SLOW_IMPORTS = {Framework.TRAINER: "transformers.trainer", Framework.ACCELERATE: "accelerate"}
_SIGNALS = ("TERM", "USR1", "USR2", "INT")  # that `stop_signal` may be


def advise(facts: Facts, args: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines. `args`: those of the job."""
    framework = facts.framework
    if framework is not None:
        yield f"found: {framework} ({facts.frameworks[framework]})"
    yield f"stop: {_stop(facts)}"
    yield f"resume: {_resume(facts)}"
    yield f"progress: {_progress(facts)}"
    if framework is Framework.LIGHTNING:
        yield "ranks: `nodes` and `procs_per_node` must be num_nodes and devices of the Trainer"
    if framework in _SLOW_IMPORTS:
        yield f"start: `warm_imports: [{_SLOW_IMPORTS[framework]}]` imports it once a node, for restarts in seconds"
    yield from _outputs(facts, args)
    if facts.local_rank is not None:
        yield f"--local_rank ({facts.local_rank}): no rank gets it; read LOCAL_RANK of the environment"


def stop_signal(facts: Facts) -> str | None:
    """Return the signal at which the script saves by itself; None where it has another way to stop."""
    if Env.STOP_FILE in facts.variables or facts.stops is not None or facts.framework in _STOP:
        return None
    return next((signal for signal in _SIGNALS if signal in facts.signals), None)


def _stop(facts: Facts) -> str:
    if Env.STOP_FILE in facts.variables:
        return f"nothing to do, it reads {Env.STOP_FILE} ({facts.variables[Env.STOP_FILE]})"
    if facts.stops is not None:
        return f"nothing to do, it calls stop_requested ({facts.stops})"
    if (signal := stop_signal(facts)) is not None:
        return f"it handles {signal} ({facts.signals[signal]}): `stop_signal` below sends it to all ranks"
    if facts.framework in _STOP:
        return _STOP[facts.framework]
    return (
        "after each step `if stop_requested():`, of fsdpctl.integrations.stop, all ranks save and exit with 0,"
        " or `stop_signal: TERM`"
    )


def _resume(facts: Facts) -> str:
    if Env.CHECKPOINT_DIR in facts.variables:
        place = facts.variables[Env.CHECKPOINT_DIR]
        return f"it uses {Env.CHECKPOINT_DIR} ({place}): load the newest complete one at each start"
    if facts.framework in _RESUME:
        return _RESUME[facts.framework]
    if facts.resumes:
        flag, option = next(iter(facts.resumes.items()))
        return f"put {flag} ({option}) into `args` if it then loads the newest checkpoint, and begins anew without one"
    return f"save below ${Env.CHECKPOINT_DIR}, and load the newest complete checkpoint at each start"


def _progress(facts: Facts) -> str:
    if facts.reports is not None:
        return f"nothing to do, it reports its steps ({facts.reports})"
    if facts.framework in (Framework.TRAINER, Framework.LIGHTNING):
        return f"{_ATTACHED} that reports each step"
    report = "`from fsdpctl.report import step`, then `step(number, loss=...)` after each step"
    return f"{report}, or `progress_regex` in the job for what it prints"


def _outputs(facts: Facts, args: tuple[str, ...]) -> Iterator[str]:
    """Yield a line for each option that names a directory to write."""
    for flag, place in facts.outputs.items():
        value = _value(flag, args)
        if value is None:
            yield f"{flag} ({place}): a relative path is below `code/src` of the run, the same in each attempt"
        elif value.startswith("/"):
            yield f"{flag} ({place}): {value} is shared by all runs of this job; a relative path is one of each run"
    if facts.reads_training_arguments is not None and _value("--output_dir", args) is None:
        yield f"--output_dir ({facts.reads_training_arguments}): a relative path is below `code/src` of the run"


def _value(flag: str, args: tuple[str, ...]) -> str | None:
    for place, word in enumerate(args):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag:
            return next(iter(args[place + 1 :]), None)
    return None
