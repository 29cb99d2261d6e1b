"""`fsdpctl bench scaling`: the same job on several numbers of GPUs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fsdpctl.cli.complete import complete_job
from fsdpctl.cli.options import Backend, Json, Profile, Set
from fsdpctl.cli.output import log, print_json
from fsdpctl.cli.scaling_options import check_plot, parse_gpus, parse_limit, parse_strategies, refuse_slow
from fsdpctl.cli.spec_files import plural
from fsdpctl.contract import CliExit
from fsdpctl.errors import FsdpctlError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdpctl.scaling.points import Measurement
    from fsdpctl.scaling.prepare import PlannedPoint
    from fsdpctl.scaling.result import Scaling, ScalingPoint


def scaling(
    job: Annotated[str, typer.Argument(help="A job's name or a path to its YAML file.", autocompletion=complete_job)],
    gpus: Annotated[
        str, typer.Option("--gpus", "-g", metavar="N,N,...", help="Numbers of GPUs; of ranks, where there are none.")
    ],
    profile: Profile = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...", help="Strategies to compare, like FULL_SHARD,HYBRID_SHARD,DDP; default: the job's."
        ),
    ] = None,
    strong: Annotated[
        bool, typer.Option("--strong", help="Keep the global batch, instead of the micro-batch of each GPU.")
    ] = False,
    steps: Annotated[int, typer.Option(min=1, max=10_000, help="Number of steps to measure at each point.")] = 20,
    time_limit: Annotated[
        str, typer.Option("--time-limit", metavar="DURATION", help="Time limit of each run.")
    ] = "20m",
    set_: Set = None,
    backend: Backend = None,
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Take the results of equal runs that have already succeeded.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg", help="Write a chart of the result to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure how a job scales: short runs on several numbers of GPUs, with where the gap to linear is. Exit 1 when a
    run has failed."""
    from fsdpctl.scaling.describe import summarize
    from fsdpctl.scaling.points import Measurement
    from fsdpctl.scaling.prepare import prepare_points
    from fsdpctl.scaling.result import Scaling, compare, unit
    from fsdpctl.specs.load import load_job
    from fsdpctl.specs.search import choose_profile
    from fsdpctl.verbs.submit import read_profile

    how = Measurement(steps, strong, parse_limit(time_limit))
    check_plot(plot)
    spec = load_job(job, set_ or ())
    chosen, source = choose_profile(profile, spec.profile)
    cluster = read_profile(chosen, source, backend or ())
    planned = prepare_points(cluster, spec, parse_gpus(gpus), parse_strategies(strategy), how)
    refuse_slow(planned)
    log(f"profile {cluster.name} ({cluster.backend.kind}), from {source}")
    log(f"{plural(len(planned), 'run')} of {how.total_steps} steps")
    results, is_interrupted = _measure(planned, how, reuse=reuse)
    points = compare(results)
    kind: Literal["weak", "strong"] = "strong" if strong else "weak"
    device = planned[0].request.plan.device
    summary = summarize(points, unit(device))
    result = Scaling(spec.name, cluster.name, device, kind, steps, points, summary, round(time.time(), 3))
    _store(planned[0], result)
    _show(result, plot, as_json=as_json)
    if is_interrupted:
        raise typer.Exit(CliExit.INTERRUPTED)
    if len(points) < len(planned) or any(point.measured is None for point in points):
        raise typer.Exit(CliExit.FAILED)


def _measure(planned: Sequence[PlannedPoint], how: Measurement, *, reuse: bool) -> tuple[list[ScalingPoint], bool]:
    """Return the results in order, up to a run that cannot be ended, and whether Ctrl-C has ended the benchmark."""
    results: list[ScalingPoint] = []
    for number, one in enumerate(planned, 1):
        try:
            results.append(_measure_point(one, how, f"{number} of {len(planned)}: {one.point.label}", reuse=reuse))
        except KeyboardInterrupt:
            log(f"interrupted; the same command with --reuse takes the {plural(len(results), 'result')} so far")
            return results, True
        except FsdpctlError as error:
            log(f"nothing else is measured: {error.message}")
            log(f"hint: {error.hint}")
            return results, False
    return results, False


def _measure_point(one: PlannedPoint, how: Measurement, start: str, *, reuse: bool) -> ScalingPoint:
    """Return the result of one point, with a live line until it is there."""
    from fsdpctl.cli.follow import LiveLine, progress_line
    from fsdpctl.scaling.run import reuse_point, run_point

    live = LiveLine()
    try:
        found = reuse_point(one, how) if reuse else None
        found = found or run_point(one, how, lambda status: live.show(f"{start}  {progress_line(status)}"))
    except (KeyboardInterrupt, FsdpctlError):
        live.erase()
        raise
    live.close(f"{start}  {_describe_end(found)}")
    return found


def _describe_end(point: ScalingPoint) -> str:
    ended = f"{point.run_id}  {point.state or 'not known'}" if point.run_id else "not started"
    speed = f"  {point.measured.tokens_per_s_gpu:,.0f} tokens/s each" if point.measured else ""
    return ended + speed + (f"  {point.problem}" if point.problem else "")


def _store(planned: PlannedPoint, result: Scaling) -> None:
    """Keep the result for `fsdpctl report`, if it compares anything."""
    from fsdpctl.scaling.stored import store_scaling

    trainer = planned.request.job.trainer
    if trainer is None or not result.compares:
        return
    try:
        store_scaling(trainer.model, result)
    except OSError as error:
        log(f"warning: the result is not kept for reports: {error.strerror}")


def _show(result: Scaling, plot: Path | None, *, as_json: bool) -> None:
    from fsdpctl.cli.scaling_table import print_scaling

    if as_json:
        print_json(result)
    elif result.points:
        print_scaling(result)
    for failed in (point.run_id for point in result.points if point.run_id and point.problem):
        log(f"hint: fsdpctl explain {failed}")
    if plot is not None and result.points:
        _write_chart(result, plot)


def _write_chart(result: Scaling, plot: Path) -> None:
    from fsdpctl.cli.new_file import replace_file
    from fsdpctl.scaling.plot import draw

    replace_file(plot, lambda path: path.write_text(draw(result), encoding="utf-8"), "--plot")
    log(f"chart: {plot}")
