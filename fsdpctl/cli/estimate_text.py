"""The estimate of a job as text: the answer first, then memory item by item, other ways, and the time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fsdpctl.cli import terminal
from fsdpctl.cli.output import print_rows, safe, write
from fsdpctl.contract.cards import GIB
from fsdpctl.estimate.accumulation import explain_misfit
from fsdpctl.estimate.changes import set_options
from fsdpctl.estimate.choices import Choice
from fsdpctl.estimate.reason import reasons
from fsdpctl.estimate.result import Estimate, Fit
from fsdpctl.estimate.simple import simple_view
from fsdpctl.verbs.estimate import Estimated

if TYPE_CHECKING:
    from rich.table import Table

IN_A_PIPE = 100  # columns
NARROW = 60
BAR = 20
_FITS = {Fit.FITS: "yes", Fit.CLOSE: "close", Fit.TOO_LARGE: "no"}


def print_estimate(found: Estimated) -> None:
    """Print the whole estimate to stdout."""
    print_rows(list(_answer(found)))
    planner, result = found.planner, found.estimate
    _print(_memory_table(result))
    _print(_choice_table("STRATEGY", [(one.estimate.config.mesh.strategy, one) for one in planner.strategies()]))
    named = [
        (f"{one.estimate.batch.micro_batch}, {one.estimate.config.memory.recompute}", one) for one in planner.batches()
    ]
    _print(_choice_table("MICRO-BATCH, RECOMPUTE", named))
    write("")
    print_rows(list(_costs(found)))


def _answer(found: Estimated) -> Iterator[tuple[str, str]]:
    result = found.estimate
    world, batch, card = result.world, result.batch, result.card
    yield "job", f"{found.job.name}: {result.sizes.parameters:,} parameters, sequences of {batch.seq_len:,}"
    gpus = f"{world.nodes} x {world.procs_per_node} {card.name} ({found.card_source}), {card.memory_gib:.1f} GiB each"
    yield "cluster", f"{found.profile.name}: {gpus}"
    yield "mesh", f"{result.config.mesh.strategy}, {world.replicate} x {world.shard} (replicate x shard)"
    parts = f"micro-batch {batch.micro_batch} x accumulation {batch.accumulation} x {batch.ranks} ranks"
    yield "batch", f"{parts} = {batch.sequences:,} sequences = {batch.tokens:,} tokens"
    yield "verdict", describe_fit(result)
    best = found.planner.recommend()
    if best is None:
        yield "advice", explain_misfit(found.planner)
        return
    yield "advice", "as it is" if not best.keys else set_options(best.keys) + _gain(best, result)
    yield "", "\n".join(reasons(best, found.planner))
    small = found.planner.smallest_change()
    if result.fit is Fit.TOO_LARGE and small is not None and small.keys != best.keys:
        yield "smallest", set_options(small.keys) + _gain(small, result)


def describe_fit(result: Estimate) -> str:
    """Return the verdict with its numbers."""
    left, share = abs(result.left_bytes) / GIB, abs(result.left_bytes) / result.card.memory_bytes
    numbers = f"{result.memory.total / GIB:.1f} of {result.card.memory_gib:.1f} GiB"
    verdict = "may not fit" if result.fit is Fit.CLOSE and result.left_bytes < 0 else str(result.fit)
    return f"{verdict}: {numbers}, {left:.1f} GiB ({share:.0%}) {'missing' if result.left_bytes < 0 else 'left'}"


def _gain(choice: Choice, result: Estimate) -> str:
    other = choice.estimate
    needs = f"{other.memory.total / GIB:.1f} GiB"
    if result.fit is Fit.TOO_LARGE:  # it has no speed to compare with
        return f"  ({needs}, {other.tokens_per_s:,.0f} tokens/s)"
    return f"  ({needs}, {other.tokens_per_s / result.tokens_per_s:.2f} of the speed)"


def _memory_table(result: Estimate) -> Table:
    memory = result.memory
    table = _table(f"MEMORY {memory.moment}", "GiB")
    if _room() >= NARROW:
        table.add_column("OF THE CARD")
    total = max(memory.total, result.card.memory_bytes)
    for item, size in (*memory.items.items(), ("total", memory.total)):
        bar = "#" * round(BAR * size / total)
        cells = [str(item), f"{size / GIB:.2f}", f"{size / result.card.memory_bytes:4.0%} {bar}"]
        table.add_row(*cells[: len(table.columns)])
    return table


def _choice_table(title: str, choices: Sequence[tuple[str, Choice]]) -> Table:
    table = _table(title, "GiB", "FITS", "tokens/s", "MFU")
    for name, choice in choices:
        result = choice.estimate
        here = " <- now" if not choice.keys else ""
        cells = [f"{name}{here}", f"{result.memory.total / GIB:.1f}", _FITS[result.fit]]
        cells += [f"{result.tokens_per_s:,.0f}", f"{result.mfu:.0%}"] if result.fit is not Fit.TOO_LARGE else ["", ""]
        table.add_row(*cells[: len(table.columns)])
    return table


def _costs(found: Estimated) -> Iterator[tuple[str, str]]:
    result = found.estimate
    time, traffic, rates = result.time, result.traffic, result.rates
    parts = (
        f"{time.compute:.3f} s computing, {time.exposed:.3f} communication not hidden, {time.optimizer:.3f} optimizer"
    )
    yield "step", f"{time.total:.3f} s: {parts}"
    yield "speed", f"{result.tokens_per_s:,.0f} tokens/s, MFU {result.mfu:.1%}"
    link = f"{traffic.link_bytes / 1e9:.2f} GB from each GPU over {result.card.link}: {traffic.link_s:.3f} s"
    assumed = ", as such nodes usually have" if rates.network_is_assumed else ""
    rate = f"{rates.network / 1e9:.0f} GB/s{assumed}"
    network = (
        f"{traffic.network_bytes / 1e9:.2f} GB from each node over the network: {traffic.network_s:.3f} s at {rate}"
    )
    yield "traffic", "\n".join([link] * (traffic.link_bytes > 0) + [network] * (traffic.network_bytes > 0)) or "none"
    yield (
        "in total",
        f"{result.tokens / 1e9:,.2f} billion tokens: {result.seconds / 86400:.1f} days,"
        f" {result.gpu_hours:,.0f} GPU hours",
    )
    if (price := found.profile.price_per_gpu_hour) is not None:
        yield "cost", f"{result.gpu_hours * price:,.0f} at {price:g} a GPU hour"
    yield "checkpoint", f"{result.checkpoint_bytes / 1e9:.1f} GB, about {result.checkpoint_s:.0f} s beside training"
    textbook = simple_view(result.sizes.parameters, result.world.ranks)
    yield "textbook", ", ".join(f"{size / 1e9:.0f} GB {stage}" for stage, size in textbook.items())


def _table(first: str, *others: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    table.add_column(first, no_wrap=_room() >= NARROW, overflow="fold")
    for name in others if _room() >= NARROW else others[:2]:
        table.add_column(name, justify="right" if name != "FITS" else "left", no_wrap=True)
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    console = Console(width=_room(), color_system=None, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    write("\n" + "\n".join(safe(line.rstrip()) for line in captured.get().splitlines()))


def _room() -> int:
    return terminal.room() if sys.stdout.isatty() else IN_A_PIPE
