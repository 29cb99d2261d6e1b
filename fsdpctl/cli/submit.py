"""`fsdpctl submit`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.complete import complete_hold, complete_job, complete_profile, complete_run
from fsdpctl.cli.new_file import replace_file
from fsdpctl.cli.options import Backend, Follow, Force, Json, Set, TrustHosts, WaitForSlot
from fsdpctl.cli.out_path import text_or_stdout
from fsdpctl.cli.output import log, print_data, print_json
from fsdpctl.cli.rehearsal import rehearse as rehearse_first
from fsdpctl.errors import UsageError

if TYPE_CHECKING:
    from fsdpctl.contract.paths import RunPaths
    from fsdpctl.contract.trainer.trainer_config import TrainerConfig
    from fsdpctl.verbs.submit import Request

CPU_FLOPS = 1e11  # of a few cores, roughly
SLOW_STEP_S = 60


def submit(
    job: Annotated[str, typer.Argument(help="A job's name or a path to its YAML file.", autocompletion=complete_job)],
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            "-p",
            help="A cluster profile's name or path; default: that of `profiles default`, else local.",
            autocompletion=complete_profile,
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", "-n", help="Number of nodes.")] = None,
    procs_per_node: Annotated[int | None, typer.Option("--procs-per-node", help="Ranks per node.")] = None,
    set_: Set = None,
    backend: Backend = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the run, instead of the job's.")] = None,
    debug: Annotated[str | None, typer.Option("--debug", help="off, info or trace; see docs/networks.md.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run; create nothing.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            callback=text_or_stdout,
            help="With --dry-run: write it to this file; `-`: stdout.",
        ),
    ] = None,
    trust_hosts: TrustHosts = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Run a job of the bundled trainer with a tiny model, for 8 steps.")
    ] = False,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="Run your own script here first, until its first step or an error.")
    ] = False,
    rehearse_node: Annotated[
        bool, typer.Option("--rehearse-node", help="The same on one node of the cluster, through its queue.")
    ] = False,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="RUN", help="Start when this run has succeeded.", autocompletion=complete_run),
    ] = None,
    hold: Annotated[
        str | None,
        typer.Option(
            "--in",
            metavar="HOLD",
            help="Start at once on the nodes of `fsdpctl hold`, with its profile.",
            autocompletion=complete_hold,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start a large model on CPUs without a question.")] = False,
    force: Force = False,
    wait_for_slot: WaitForSlot = False,
    follow: Follow = False,
    as_json: Json = False,
) -> None:
    """Start a job on a cluster."""
    from fsdpctl.verbs.holds import find_hold
    from fsdpctl.verbs.submit import read_request, start_after

    if out is not None and not dry_run:
        raise UsageError("--out is the file of --dry-run", hint="add --dry-run")
    if (rehearse or rehearse_node) and dry_run:
        raise UsageError("--dry-run creates nothing, and a rehearsal starts ranks: give one of them")
    overrides = [*_options(nodes, procs_per_node, name, debug), *(set_ or [])]
    held = find_hold(hold) if hold is not None else None
    request = read_request(job, profile, overrides, backend or (), smoke=smoke, dry_run=dry_run, hold=held)
    if after is not None:
        from fsdpctl.runs.find import find_run

        request = start_after(request, find_run(after))
    predicted = _log_request(request, hold, force=force or dry_run)
    if not smoke:
        _lint(request, job, profile, overrides, backend or ())
    if dry_run:
        _print_plan(request, predicted, out, as_json=as_json)
        return
    _warn_if_live(request)
    _confirm_slow(request, job, yes=yes)
    if trust_hosts:
        _trust_hosts(request)
    rehearse_first(request, here=rehearse, on_node=rehearse_node)
    run = _start(request, quiet=as_json, wait_for_slot=wait_for_slot)
    log(f"started {run.root.name} in {run.root}")
    if as_json:
        from fsdpctl.cli.shapes.runs import Started

        print_json(Started(run.root.name, str(run.root)))
    if follow:
        _follow(run, quiet=as_json)
    elif not as_json:
        print_data(run.root.name)
        log(f"hint: fsdpctl logs -f {run.root.name} | status {run.root.name} | stop {run.root.name}")


def _log_request(request: Request, hold: str | None, *, force: bool) -> str:
    """Log where the run takes place, and what its user may not expect; return the scheduler's prediction.

    Raise UsageError if it does not fit the memory of its GPUs; `force`: warn instead.
    """
    from fsdpctl.backends.table import get_backend
    from fsdpctl.notify.check import find_missing
    from fsdpctl.verbs.fit import check_memory

    for notice in (*request.notices, *request.suspects):
        log(notice)
    source = f"hold {hold}" if hold is not None else request.profile_source
    log(f"profile {request.profile.name} ({request.plan.backend}), from {source}")
    predicted = get_backend(request.plan.backend).predict(request.plan)
    memory = check_memory(request.profile, request.job, request.plan, force=force)
    unsent = [f"no notices until this is there: {missing}" for missing in find_missing(request.plan.notify)]
    for warning in (*predicted.warnings, *([memory] if memory else []), *unsent):
        log(f"warning: {warning}")
    return predicted.text


def _options(nodes: int | None, procs_per_node: int | None, name: str | None, debug: str | None) -> list[str]:
    """Return options as overrides: one validator checks both."""
    given = {"--nodes": nodes, "--procs-per-node": procs_per_node, "--name": name, "--debug": debug}
    return [f"{option}={value}" for option, value in given.items() if value is not None]


def as_set(override: str) -> str:
    """Return what `--set` takes instead of an option of `submit`."""
    option, equals, value = override.partition("=")
    return f"{option[2:].replace('-', '_')}{equals}{value}" if option.startswith("--") else override


def _print_plan(request: Request, predicted: str, out: Path | None, *, as_json: bool) -> None:
    from fsdpctl.launch.preview import preview_json, preview_text

    if out is not None:
        text = json.dumps(preview_json(request.plan), indent=2) if as_json else preview_text(request.plan)
        replace_file(out, lambda path: path.write_text(f"{text}\n", encoding="utf-8"))
        log(f"written to {out}")
    elif as_json:
        print_json(preview_json(request.plan))
    else:
        print_data(preview_text(request.plan))
    if predicted:
        log(predicted)


def predict_slow_steps(trainer: TrainerConfig) -> str | None:
    """Return a warning if the steps of a job without a GPU will take very long, else None."""
    parameters, tokens = trainer.model.num_parameters, trainer.batch.sequences * trainer.model.seq_len
    seconds = 6 * parameters * tokens / CPU_FLOPS
    if seconds < SLOW_STEP_S:
        return None
    return (
        f"{parameters:,} parameters and {tokens:,} tokens a step without a GPU:"
        f" expect {'hours' if seconds >= 3600 else 'minutes'} for each of the {trainer.steps:,} steps, and"
        f" {16 * parameters / 2**30:.0f} GiB of memory per replica"
    )


def _confirm_slow(request: Request, job: str, *, yes: bool) -> None:
    """Ask before a run whose steps take very long on CPUs; without a terminal, raise UsageError."""
    trainer = request.job.trainer
    if request.plan.device == "cuda" or trainer is None or (warning := predict_slow_steps(trainer)) is None:
        return
    hint = f"--profile chooses a cluster; fsdpctl submit {shlex.quote(job)} --smoke tests the same path in a minute"
    if not (yes or sys.stdin.isatty()):
        raise UsageError(warning, hint=f"{hint}; --yes starts it all the same")
    log(f"warning: {warning}")
    log(f"hint: {hint}")
    if not yes:
        typer.confirm("start it all the same?", abort=True, err=True)


def _lint(request: Request, job: str, profile: str | None, overrides: Sequence[str], backend: Sequence[str]) -> None:
    """Log what `jobs check` finds; nothing of it prevents the run."""
    from fsdpctl.cli.jobs_check import log_findings
    from fsdpctl.verbs.lint import lint_submission

    options = ["-p", profile] if profile is not None else []
    for option, given in (("--set", map(as_set, overrides)), ("--backend", backend)):
        options += [word for value in given for word in (option, value)]
    command = shlex.join(["fsdpctl", "jobs", "check", job, *options])
    log_findings(lint_submission(request, job, overrides, backend, profile), command)


def _warn_if_live(request: Request) -> None:
    """Log which sources of an own script's repository are in no copy of it: a later edit of these changes the run."""
    from fsdpctl.launch.live_sources import find_live_sources

    plan = request.plan
    if plan.entry.is_bundled or not (live := find_live_sources(plan.python, Path(plan.submit_dir))):
        return
    log(f"warning: imported where they are, not from the run's copy: {', '.join(live)}; an edit there changes the run")
    log("hint: submit from a directory that contains them; git must not ignore them")


def _trust_hosts(request: Request) -> None:
    from fsdpctl.backends.table import get_backend

    get_backend(request.plan.backend).trust_hosts(request.plan, log)


def _start(request: Request, *, quiet: bool, wait_for_slot: bool) -> RunPaths:
    """Create the run and start it, with a live line unless `quiet`."""
    from fsdpctl.cli.copy_progress import show_copy
    from fsdpctl.cli.start_progress import show_start
    from fsdpctl.contract.paths import RunPaths
    from fsdpctl.verbs.submit import submit as submit_run

    paths = RunPaths.of(request.plan.run_dir)
    try:
        with show_copy() as progress, nullcontext() if quiet else show_start(paths):
            return submit_run(request, progress, log if wait_for_slot else None)
    except KeyboardInterrupt:
        if paths.root.exists():  # another process starts it
            log(f"\n{paths.root.name} may still start; fsdpctl cancel {paths.root.name} ends it")
        raise


def _follow(run: RunPaths, *, quiet: bool) -> None:
    from fsdpctl.cli.follow import follow_run, wait_for_end

    raise typer.Exit(wait_for_end(run) if quiet else follow_run(run))
