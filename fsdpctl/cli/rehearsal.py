"""`submit --rehearse`: the first step of an own script, before anything is queued."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdpctl.cli.output import log, safe

_SHOWN = 200
"""Characters of a line that a script has printed."""

if TYPE_CHECKING:
    from fsdpctl.own_scripts.printed_steps import PrintedStep
    from fsdpctl.rehearsal.rehearse import Rehearsal
    from fsdpctl.verbs.submit import Request


def rehearse(request: Request, *, here: bool, on_node: bool) -> None:
    """Rehearse on this machine, then on a node, and log how far it came. Raise RunFailed with what is wrong."""
    from fsdpctl.rehearsal.rehearse import rehearse_here, rehearse_on_node

    for place in ([rehearse_here] if here else []) + ([rehearse_on_node] if on_node else []):
        log(describe_rehearsal(place(request, log)))


def describe_rehearsal(done: Rehearsal) -> str:
    """Return what a rehearsal has shown, and what it has not."""
    from fsdpctl.rehearsal.rehearse import LIMIT_S, count_ranks
    from fsdpctl.rehearsal.signs import Sign

    ranks = count_ranks(done.ranks)
    match done.sign:
        case Sign.STEP:
            text = f"{ranks} finished step {done.step} after {done.seconds:.0f} s"
        case Sign.PRINTED:
            text = f"rank 0 of {done.ranks} printed a step after {done.seconds:.0f} s{_describe_printed(done.printed)}"
        case Sign.SAVE:
            text = f"{ranks} wrote into the checkpoint directory after {done.seconds:.0f} s"
        case Sign.END:
            text = f"{ranks} ran to their end in {done.seconds:.0f} s, without an error"
        case Sign.TIME:
            text = f"nothing failed in {LIMIT_S:.0f} s; no step was reported, so the first one may not have come yet"
            text = "\n  ".join([text, *(safe(line[:_SHOWN]) for line in done.seen)])
        case Sign.IMPORTS:
            text = "all modules are found; no rank was started, because this machine has no GPU"
    return f"rehearsal: {text}"


def _describe_printed(printed: PrintedStep | None) -> str:
    """Return the line, and what the job needs so that steps like it are shown."""
    from fsdpctl.schema.dump import dump_tree

    if printed is None:
        return ""
    key = dump_tree({"progress_regex": printed.pattern}).strip()
    use = "step and loss in `status`, if its steps count from the beginning of the run"
    return f": {safe(printed.line[:_SHOWN])}\nhint: this line in the job shows {use}:\n{safe(key)}"
