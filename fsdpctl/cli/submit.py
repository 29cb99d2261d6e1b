"""`fsdpctl submit`."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.before_submit import confirm_slow, log_lint, log_request, warn_if_live
from fsdpctl.cli.complete import complete_hold, complete_job, complete_profile, complete_run
from fsdpctl.cli.new_file import replace_file
from fsdpctl.cli.options import Backend, Follow, Force, Json, Set, TrustHosts, WaitForSlot
from fsdpctl.cli.out_path import text_or_stdout
from fsdpctl.cli.output import log, print_data, print_json
from fsdpctl.cli.rehearsal import rehearse as rehearse_first
from fsdpctl.errors import UsageError

if TYPE_CHECKING:
    from fsdpctl.contract.paths import RunPaths
    from fsdpctl.verbs.submit import Request


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
    from fsdpctl.verbs.submit import read_request

    _check_dry_run(dry_run=dry_run, has_file=out is not None, is_rehearsed=rehearse or rehearse_node)
    overrides = [*_options(nodes, procs_per_node, name, debug), *(set_ or [])]
    held = find_hold(hold) if hold is not None else None
    request = read_request(job, profile, overrides, backend or (), smoke=smoke, dry_run=dry_run, hold=held)
    request = _start_after(request, after) if after is not None else request
    predicted = log_request(request, hold, force=force or dry_run)
    if not smoke:
        log_lint(request, job, profile, overrides, backend or ())
    if dry_run:
        _print_plan(request, predicted, out, as_json=as_json)
        return
    warn_if_live(request)
    confirm_slow(request, job, yes=yes)
    if trust_hosts:
        _trust_hosts(request)
    rehearse_first(request, here=rehearse, on_node=rehearse_node)
    run = _start(request, quiet=as_json, wait_for_slot=wait_for_slot)
    _print_started(run, with_hint=not follow, as_json=as_json)
    if follow:
        from fsdpctl.cli.follow import follow_run, wait_for_end

        raise typer.Exit(wait_for_end(run) if as_json else follow_run(run))


def _check_dry_run(*, dry_run: bool, has_file: bool, is_rehearsed: bool) -> None:
    if has_file and not dry_run:
        raise UsageError("--out is the file of --dry-run", hint="add --dry-run")
    if is_rehearsed and dry_run:
        raise UsageError("--dry-run creates nothing, and a rehearsal starts ranks: give one of them")


def _start_after(request: Request, run: str) -> Request:
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.submit import start_after

    return start_after(request, find_run(run))


def _options(nodes: int | None, procs_per_node: int | None, name: str | None, debug: str | None) -> list[str]:
    """Return options as overrides, which are YAML: one validator checks both, and a run may be named 2024."""
    given = {"--nodes": nodes, "--procs-per-node": procs_per_node, "--name": name, "--debug": debug}
    return [f"{option}={json.dumps(value, ensure_ascii=False)}" for option, value in given.items() if value is not None]


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


def _print_started(run: RunPaths, *, with_hint: bool, as_json: bool) -> None:
    name = run.root.name
    log(f"started {name} in {run.root}")
    if as_json:
        from fsdpctl.cli.shapes.runs import Started

        print_json(Started(name, str(run.root)))
    elif with_hint:
        print_data(name)
        log(f"hint: fsdpctl logs -f {name} | status {name} | stop {name}")
