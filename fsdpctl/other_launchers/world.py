"""The world of a run, its head, and its batch: numbers that a file gives more than once must agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fsdpctl.other_launchers.carry import find, path_of
from fsdpctl.other_launchers.draft import Draft, Program
from fsdpctl.schema.problems import Location, shorten
from fsdpctl.schema.yaml_tree import YamlDocument

USUAL_GPUS = 8


def count(document: YamlDocument, key: str) -> int | None:
    """Return a key's value if it is a whole number of at least one, else None."""
    value = find(document.tree, key)
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


def set_world(document: YamlDocument, draft: Draft, *, nodes: str, world: str, procs: str = "") -> None:
    """Set nodes and ranks per node from the keys of the file that give nodes, world size and ranks per node."""
    num_nodes, size, per_node = count(document, nodes), count(document, world), count(document, procs)
    location, path = document.locate(path_of(world)), path_of(world)
    if size is None:
        if per_node is not None:
            draft.set("job.procs_per_node", per_node, document.locate(path_of(procs)))
        return
    if num_nodes and per_node and num_nodes * per_node != size:
        text = f"{size}, but {nodes} {num_nodes} x {procs} {per_node} = {num_nodes * per_node}"
        draft.problem(location, path, text)
        return
    if num_nodes is None and per_node is not None:
        if size % per_node:
            draft.problem(location, path, f"{size} is no multiple of {procs} {per_node}")
            return
        num_nodes = size // per_node
    if num_nodes is None:
        place_world(draft, size, world, location)
    elif size % num_nodes:
        draft.problem(location, path, f"{size} does not divide over {nodes} {num_nodes}; all nodes have as many ranks")
    else:
        draft.set("job.nodes", num_nodes, draft.job_locations.get(("nodes",), location))
        draft.set("job.procs_per_node", size // num_nodes, location)


def place_world(draft: Draft, size: int, key: str, location: Location) -> None:
    """Set nodes and ranks per node of a world: by the one that is known, else one node, or nodes of eight ranks."""
    known = {name: draft.job[name] for name in ("nodes", "procs_per_node") if name in draft.job}
    if not all(isinstance(number, int) and number > 0 for number in known.values()):
        return  # the check of the job refuses them
    for name, number in known.items():
        if size % number:
            draft.problem(location, path_of(key), f"is for {size} ranks, no multiple of {name} {number}")
            return
    nodes = 1 if size <= USUAL_GPUS or size % USUAL_GPUS else size // USUAL_GPUS
    if known:
        nodes = known.get("nodes") or size // known["procs_per_node"]
    if "nodes" in known and nodes > 1 and not draft.makes_profile:
        draft.note(location, key, f"{size} are the ranks of all {nodes} nodes: {size // nodes} on each")
    draft.set("job.nodes", nodes, location)
    draft.set("job.procs_per_node", size // nodes, location)
    if size > USUAL_GPUS and not known:
        shape = f"{nodes} x {size // nodes}"
        draft.note(location, key, f"a world size of {size}, without the number of nodes: {shape} is assumed")


def set_head(document: YamlDocument, draft: Draft, *, address: str, port: str) -> None:
    """Make an SSH profile of the head's address, if the file has one."""
    head = find(document.tree, address)
    if isinstance(head, str) and "$" not in head:
        set_head_profile(draft, head, str(find(document.tree, port)), document.locate(path_of(address)), address)


def set_head_profile(draft: Draft, address: str, port: str, location: Location, key: str) -> None:
    """Make an SSH profile with the head of several nodes, whose address is all that other launchers are given."""
    num_nodes = draft.job.get("nodes", 1)
    if not isinstance(num_nodes, int) or num_nodes < 2:
        return
    if not draft.makes_profile:
        draft.note(location, key, f"fsdpctl finds the address of the head when the run starts, not {shorten(address)}")
        return
    draft.set("profile.backend", "ssh", location)
    draft.set("profile.nodes", [{"id": "node-0", "address": address}], location)
    if procs := draft.job.get("procs_per_node"):
        draft.profile.setdefault("gpus_per_node", procs)
    others = "the other node" if num_nodes == 2 else f"the other {num_nodes - 1} nodes"
    draft.note(location, key, f"only the head's address is known: add {others} to the profile", must_change=True)
    if port.isdecimal() and 1024 <= int(port) <= 65_535:
        draft.set("profile.ports", {"first": int(port), "last": int(port)}, location)


@dataclass(frozen=True)
class Batch:
    """The dotted keys by which a file gives the batch."""

    total: str  # sequences of one optimizer step over all ranks
    micro: str
    accumulation: str


def check_batch(document: YamlDocument, draft: Draft, keys: Batch, world: int | None) -> None:
    """Set the batch, after comparing what the file gives of it: total = micro-batch x accumulation x world size."""
    total, micro, steps = (count(document, key) for key in (keys.total, keys.micro, keys.accumulation))
    location, path = document.locate(path_of(keys.total)), path_of(keys.total)
    if total and micro:
        product = micro * (steps or 1)
        spelled = f"{keys.micro} {micro}" + (f" x {keys.accumulation} {steps}" if steps else "")
        if world and steps and product * world != total:
            text = f"{total}, but {spelled} x {world} ranks = {product * world}"
            draft.problem(location, path, text)
            return
        if total % product or (world and total % (micro * world)):
            wanted = product if total % product else micro * (world or 1)
            ranks_text = "" if total % product else f" x {world} ranks"
            text = f"{total} is no multiple of {spelled}{ranks_text} = {wanted}"
            draft.problem(location, path, text)
            return
        if steps and not world:
            place_world(draft, total // product, keys.total, location)
    elif micro and world:
        total = micro * (steps or 1) * world
    elif not total:
        key = keys.micro if micro else keys.accumulation
        note_batch(draft, document.locate(path_of(key)), key, micro, steps)
    _set_batch(draft, document, keys, total, micro)


def note_batch(draft: Draft, location: Location, key: str, micro: int | None, steps: int | None) -> None:
    """Note that the global batch depends on the number of ranks, which the file does not have."""
    if micro:
        each = f"{micro * (steps or 1)} sequences"
    elif steps and steps > 1:
        each = f"{steps} micro-batches"
    else:
        return
    text = f"the global batch is {each} x ranks here: write trainer.batch.sequences"
    draft.note(location, key, text, must_change=True, of=(Program.TRAINER,))


def _set_batch(draft: Draft, document: YamlDocument, keys: Batch, total: int | None, micro: int | None) -> None:
    given: dict[str, Any] = {keys.total: total, keys.micro: micro}
    for key, target in ((keys.total, "sequences"), (keys.micro, "micro_batch")):
        if given[key]:
            draft.set(f"trainer.batch.{target}", given[key], document.locate(path_of(key)))
