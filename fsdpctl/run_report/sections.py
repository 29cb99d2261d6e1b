"""Facts of a run -> the parts of its page. A part is a function and a row in `SECTIONS`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from fsdpctl.contract import State
from fsdpctl.contract.clock import MINUTE, format_clock, format_time
from fsdpctl.contract.events import Event, EventKind
from fsdpctl.curves.series import Curve, format_number, label_of
from fsdpctl.run_report.document import Block, Charts, Document, Listing, Notes, Paragraph, Rows, Section, Shares, Table
from fsdpctl.run_report.facts import Attempt, Checkpoint, Facts, Node
from fsdpctl.run_report.notes import duration, make_notes, plural
from fsdpctl.run_report.scaling import scaling_blocks
from fsdpctl.runs.gpu_history import GpuUse

MAX_EVENTS = 120
MAX_CHECKPOINTS = 30
MAX_DIFF_CHARS = 200_000
GOOD = (State.SUCCEEDED, State.STOPPED)


def build_document(facts: Facts) -> Document:
    """Return the page of a run."""
    sections = [Section(title, tuple(blocks)) for title, make in SECTIONS if (blocks := list(make(facts)))]
    return Document(
        title=facts.run_id,
        state=facts.state,
        lead=facts.reason,
        is_good=facts.state in GOOD or facts.state.is_alive,
        sections=tuple(sections),
    )


def _summary(facts: Facts) -> Iterator[Block]:
    steps = facts.steps
    rows = [("job", f"{facts.job}, profile {facts.profile} ({facts.backend})")]
    rows.append(("submitted", format_time(facts.submitted, MINUTE)))
    if facts.ledger is not None:
        share = f", {facts.ledger.effective:.0%} of it effective" if facts.ledger.effective is not None else ""
        rows.append(("time", f"{format_clock(facts.ledger.counted_s)}{share}"))
    if steps is not None:
        total = f" of {facts.total_steps:,}" if facts.total_steps else ""
        each = f", {duration(steps.step_s)} each (median)" if steps.step_s is not None else ""
        rows.append(("steps", f"{steps.last:,}{total}{each}"))
        if steps.first_loss is not None and steps.last_loss is not None:
            rows.append(("loss", f"{steps.first_loss:.4f} -> {steps.last_loss:.4f}, lowest {steps.lowest_loss:.4f}"))
    if (held_out := facts.outcome.get("held_out_loss")) is not None:
        rows.append(("held-out loss", f"{held_out:.4f}"))
    if steps is not None and steps.tokens_per_s is not None:
        mfu = f", MFU {steps.mfu:.1%}" if steps.mfu is not None else ""
        rows.append(("speed", f"{steps.tokens_per_s:,.0f} tokens/s (median){mfu}"))
    if (peak := facts.outcome.get("peak_memory_gib")) is not None:
        rows.append(("peak memory", f"{peak:.1f} GiB of a rank"))
    yield Rows(tuple(rows))


def _notes(facts: Facts) -> Iterator[Block]:
    if notes := make_notes(facts):
        yield Notes(tuple(notes))
    elif facts.explanation is None:
        yield Paragraph("Nothing that was measured suggests a change.")


def _failure(facts: Facts) -> Iterator[Block]:
    found = facts.explanation
    if found is None or (diagnosis := found.diagnosis) is None:
        return
    rows = [("diagnosis", f"{diagnosis.category} ({diagnosis.confidence}): {diagnosis.summary}")]
    for rank in found.ranks[:1]:
        who = f"rank {rank.rank}" if rank.rank is not None else f"node {rank.node_rank}"
        rows.append(("ended by", f"{who} on {rank.host}: {rank.message}"))
        rows += [("", f"at {frame}") for frame in reversed(rank.frames)]
    rows += [("evidence" if row == 0 else "", text) for row, text in enumerate(diagnosis.evidence)]
    rows += [("change" if row == 0 else "", text) for row, text in enumerate(diagnosis.changes)]
    if diagnosis.docs:
        rows.append(("see", f"docs/{diagnosis.docs}"))
    yield Rows(tuple(rows))


def _curves(facts: Facts) -> Iterator[Block]:
    if facts.curves is None or not facts.curves.curves:
        return
    yield Charts(facts.curves)
    header = ("number", "first", "lowest", "highest", "last")
    yield Table(header, tuple(map(_curve_row, facts.curves.curves)), numbers=(1, 2, 3, 4))


def _curve_row(curve: Curve) -> tuple[str, ...]:
    values = (curve.values[0], min(curve.values), max(curve.values), curve.values[-1])
    return (label_of(curve.key), *(format_number(value, 4) for value in values))


def _time(facts: Facts) -> Iterator[Block]:
    if facts.ledger is None or not facts.ledger.total_s:
        return
    total = facts.ledger.total_s
    parts = [(str(use), seconds / total) for use, seconds in facts.ledger.seconds.items()]
    rows = [
        (str(use), format_clock(seconds), f"{seconds / total:.1%}") for use, seconds in facts.ledger.seconds.items()
    ]
    yield Shares(tuple(parts), Table(("use", "time", "share"), tuple(rows), numbers=(1, 2)))


def _attempts(facts: Facts) -> Iterator[Block]:
    if facts.attempts:
        header = ("attempt", "started", "time", "steps", "end")
        yield Table(header, tuple(map(_attempt_row, facts.attempts)), numbers=(0, 2))


def _attempt_row(attempt: Attempt) -> tuple[str, ...]:
    started = format_time(attempt.started, MINUTE) if attempt.started is not None else "-"
    first, last = attempt.first_step, attempt.last_step
    steps = f"{first:,}-{max(first, last):,}" if first is not None and last is not None else "-"
    end = f"{attempt.state}: {attempt.reason}" if attempt.state is not None else "runs"
    return str(attempt.number), started, format_clock(attempt.seconds), steps, end


def _nodes(facts: Facts) -> Iterator[Block]:
    if facts.nodes:
        yield Table(("node", "host", "ranks", "end"), tuple(map(_node_row, facts.nodes)), numbers=(0,))
    if facts.gpus:
        header = ("node", "GPU", "busy", "power", "peak memory")
        yield Paragraph("GPUs, from samples every ten seconds; busy and power are means:")
        yield Table(header, tuple(map(_gpu_row, facts.gpus)), numbers=(0, 1, 2, 3, 4))


def _gpu_row(gpu: GpuUse) -> tuple[str, ...]:
    busy = f"{gpu.busy:.0%}" if gpu.busy is not None else "-"
    power = f"{gpu.power_w:.0f} W" if gpu.power_w is not None else "-"
    memory = f"{gpu.memory_peak / 2**30:.1f} GiB" if gpu.memory_peak is not None else "-"
    return str(gpu.node), str(gpu.gpu), busy, power, memory


def _node_row(node: Node) -> tuple[str, ...]:
    ranks = f"{node.ranks[0]}-{node.ranks[-1]}" if len(node.ranks) > 1 else ", ".join(map(str, node.ranks)) or "-"
    return str(node.rank), node.host or "-", ranks, node.end or "-"


def _slow_ranks(facts: Facts) -> Iterator[Block]:
    if facts.slow_ranks:
        rows = tuple((str(slow.rank), slow.host or "-", str(slow.times)) for slow in facts.slow_ranks)
        yield Table(("rank", "host", "times"), rows, numbers=(0, 2))


def _checkpoints(facts: Facts) -> Iterator[Block]:
    if not facts.checkpoints:
        return
    shown = facts.checkpoints[:MAX_CHECKPOINTS]
    yield Table(("checkpoint", "size", "written in", "problem"), tuple(map(_checkpoint_row, shown)), numbers=(1, 2))
    if facts.plan is not None and not facts.plan.shared_disk:
        yield Paragraph(f"Each host has copies of its own; `fsdpctl checkpoints ls {facts.run_id}` asks them.")
    if len(shown) < len(facts.checkpoints):
        yield Paragraph(f"and {len(facts.checkpoints) - len(shown):,} older ones")


def _checkpoint_row(one: Checkpoint) -> tuple[str, ...]:
    size = f"{one.num_bytes / 2**20:,.1f} MiB" if one.num_bytes is not None else "-"
    return one.name, size, f"{one.save_s:.2f} s" if one.save_s is not None else "-", one.problem or "-"


def _events(facts: Facts) -> Iterator[Block]:
    rows = list(_event_rows(facts.events))
    if len(rows) > MAX_EVENTS:
        yield Paragraph(f"The newest {MAX_EVENTS} of {len(rows):,}; `fsdpctl events {facts.run_id}` has all.")
    if rows:
        yield Table(("time", "attempt", "event", ""), tuple(rows[-MAX_EVENTS:]), numbers=(1,))


def _event_rows(events: Sequence[Event]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each event; saves that follow each other have one together."""
    for (kind, _), group in groupby(events, key=lambda event: (event.kind, event.attempt)):
        alike = list(group)
        if kind is EventKind.SAVED and len(alike) > 1:
            text = f"{len(alike)} checkpoints, of steps {alike[0].step} to {alike[-1].step}"
            yield _event_row(alike[-1], text)
        else:
            yield from (_event_row(event, event.text) for event in alike)


def _event_row(event: Event, text: str) -> tuple[str, ...]:
    return format_time(event.time), str(event.attempt or "-"), event.kind.replace("_", " "), text


def _resources(facts: Facts) -> Iterator[Block]:
    steps = facts.steps
    unit = "GPU" if facts.has_gpus else "rank"
    rows = [
        ("nodes", f"{facts.num_nodes}, with {facts.world_size} {unit}s together"),
        ("node hours", f"{facts.node_hours:,.2f}"),
        (f"{unit} hours", f"{facts.rank_hours:,.2f}"),
    ]
    if kinds := list(dict.fromkeys(gpu.name for node in facts.nodes for gpu in node.gpus if gpu.name)):
        rows.append(("kind of GPU", ", ".join(kinds)))
    if steps is not None and steps.tokens:
        rows.append(("tokens", f"{steps.tokens:,}"))
        if facts.rank_hours:
            rows.append((f"tokens per {unit} hour", f"{steps.tokens / facts.rank_hours:,.0f}"))
    if steps is not None and steps.tokens_per_s and facts.world_size:
        rows.append((f"tokens/s per {unit}", f"{steps.tokens_per_s / facts.world_size:,.0f} (median)"))
    if steps is not None and steps.mfu is not None:
        rows.append(("utilization", f"MFU {steps.mfu:.1%} (median)"))
    if facts.busy is not None:
        rows.append(("busy", f"{facts.busy:.0%} of the samples of all GPUs"))
    if facts.energy_kwh is not None:
        amount = f"{facts.energy_kwh:,.2f}" if facts.energy_kwh >= 0.1 else f"{facts.energy_kwh:.2g}"
        rows.append(("energy", f"{amount} kWh of the GPUs"))
    if facts.ledger is not None and facts.ledger.effective is not None:
        rows.append(("effective", f"{facts.ledger.effective:.0%} of the time without queue"))
    yield Rows(tuple(rows))
    if facts.scaling is not None:
        yield from scaling_blocks(facts.scaling)
    elif facts.plan is not None and facts.plan.entry.is_bundled_trainer:
        yield Paragraph("`fsdpctl bench scaling` measures the job on several numbers of GPUs, for a scaling table.")


def _what_ran(facts: Facts) -> Iterator[Block]:
    plan, git = facts.plan, facts.code.git
    rows = []
    if plan is not None:
        rows.append(("entrypoint", " ".join((plan.entry.target, *plan.entry.args))))
        mesh = f", {plan.mesh.strategy} {plan.mesh.replicate} x {plan.mesh.shard}" if plan.mesh is not None else ""
        rows.append(("layout", f"{len(plan.nodes)} x {plan.procs_per_node} ranks on {plan.device}{mesh}"))
        rows.append(("Python", plan.python))
    rows += list(facts.code.versions.items())
    if git is not None:
        rows += [("branch", git.branch or "none"), ("subject", git.subject)]
        rows += [("edited", ", ".join(git.changed))] if git.changed else []
        rows += [("untracked", ", ".join(git.untracked[:20]))] if git.untracked else []
    if facts.job_id:
        rows.append(("job id", facts.job_id))
    rows.append(("directory", facts.directory))
    yield Rows(tuple(rows))
    if facts.code.diff:
        yield Listing("What was edited since the commit", facts.code.diff[:MAX_DIFF_CHARS])
    if facts.configuration:
        lines = [f"{key}: {_value(value)}" for key, value in facts.configuration.items()]
        yield Listing(f"Configuration, {plural(len(lines), 'key')}", "\n".join(lines))


def _value(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case list():
            return ", ".join(map(_value, value)) or "none"
        case dict():
            return ", ".join(f"{key}: {_value(inner)}" for key, inner in value.items()) or "none"
        case _:
            return str(value)


SECTIONS: tuple[tuple[str, Callable[[Facts], Iterator[Block]]], ...] = (
    ("Summary", _summary),
    ("Why it failed", _failure),
    ("Notes", _notes),
    ("Curves", _curves),
    ("Time", _time),
    ("Attempts", _attempts),
    ("Nodes", _nodes),
    ("Slow ranks", _slow_ranks),
    ("Checkpoints", _checkpoints),
    ("Resources, for a proposal", _resources),
    ("What ran", _what_ran),
    ("Events", _events),
)
"""The parts of the page, in order; one without blocks is left out."""
