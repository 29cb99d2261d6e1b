"""Numbers of nodes, ranks and restarts in the options of a launcher."""

from __future__ import annotations

from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.shell.variables import is_resolved
from fsdpctl.other_launchers.values import WrongError, whole
from fsdpctl.schema.problems import Location, shorten

_NPROC_WORDS = ("gpu", "auto", "cpu", "xpu")


def set_nodes(draft: Draft, option: str, value: str | None, location: Location) -> None:
    """Set the number of nodes; one that is known already must be the same."""
    low, _, high = (value or "").partition(":")
    if not is_resolved(high or low):
        if "nodes" not in draft.job:
            text = f"{shorten(high or low)} is not known from the text: write `nodes`"
            draft.note(location, option, text, must_change=True)
        return
    try:
        nodes = whole(high or low)
    except WrongError as error:
        draft.problem(location, (option,), str(error))
        return
    if high and high != low:
        if "nodes" in draft.job:
            return
        text = f"a run has a fixed number of nodes, not {shorten(value or '')}: {nodes} is taken, write `nodes`"
        draft.note(location, option, text, must_change=True)
    check_nodes(draft, option, nodes, location)
    draft.set("job.nodes", nodes, location)


def check_nodes(draft: Draft, option: str, nodes: int, location: Location) -> None:
    """Add a problem if another line of the file gives another number of nodes."""
    known, source = draft.job.get("nodes"), draft.job_locations.get(("nodes",))
    if source is not None and known != nodes:
        draft.problem(location, (option,), f"{nodes}, but {source} has {known} nodes")


def set_procs(draft: Draft, option: str, value: str | None, location: Location, gpus: int | None) -> None:
    """Set the ranks of a node. `gpus`: those that a node is given, if that is known."""
    if value in _NPROC_WORDS:
        return
    if value is None or not is_resolved(value):
        if gpus is None:
            text = f"{shorten(str(value))} is not known from the text: the default is one rank on each GPU"
            draft.note(location, option, text)
        return
    try:
        procs = whole(value)
    except WrongError as error:
        draft.problem(location, (option,), str(error))
        return
    if gpus is not None and procs > gpus:
        text = f"{procs} ranks a node, but it is given {gpus} {'GPU' if gpus == 1 else 'GPUs'}"
        draft.problem(location, (option,), text)
    draft.set("job.procs_per_node", procs, location)


def set_restarts(draft: Draft, value: str | None, location: Location) -> None:
    if value is not None and value.isdecimal() and len(value) < 5:
        draft.set("job.restarts", int(value), location)
