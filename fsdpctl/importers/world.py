"""The world of a run, its head, and its batch: numbers that a file gives more than once must agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fsdpctl.importers.carry import find, path_of
from fsdpctl.importers.imported import Draft
from fsdpctl.schema.yaml_tree import YamlDocument

_USUAL_GPUS = 8


def count(document: YamlDocument, key: str) -> int | None:
    """Return a key's value if it is a number that can be counted with; what else it is was reported already."""
    value = find(document.tree, key)
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


def set_world(document: YamlDocument, draft: Draft, *, nodes: str, world: str, procs: str = "") -> None:
    """Set nodes and ranks per node from the keys of the file that give nodes, world size and ranks per node."""
    num_nodes, size, per_node = count(document, nodes), count(document, world), count(document, procs)
    location, path = document.locate(path_of(world)), path_of(world)
    draft.job.pop("procs_per_node", None)
    if size is None:
        if per_node is not None:
            draft.set("job.procs_per_node", per_node, document.locate(path_of(procs)))
        return
    if num_nodes and per_node and num_nodes * per_node != size:
        text = f"{size}, but {nodes} {num_nodes} x {procs} {per_node} = {num_nodes * per_node}"
        draft.problem(location, path, text)
        return
    if num_nodes is None and per_node is None:
        num_nodes = _guess_nodes(document, draft, world, size)
    if num_nodes is None:
        assert per_node is not None
        if size % per_node:
            draft.problem(location, path, f"{size} is no multiple of {procs} {per_node}")
            return
        num_nodes = size // per_node
    if size % num_nodes:
        draft.problem(location, path, f"{size} does not divide over {nodes} {num_nodes}; all nodes have as many ranks")
        return
    draft.set("job.nodes", num_nodes, draft.job_locations.get(("nodes",), location))
    draft.set("job.procs_per_node", size // num_nodes, location)


def _guess_nodes(document: YamlDocument, draft: Draft, world: str, size: int) -> int:
    """Return the nodes of a world of which only the size is known: one, or nodes of eight ranks."""
    if size <= _USUAL_GPUS or size % _USUAL_GPUS:
        return 1
    nodes = size // _USUAL_GPUS
    text = f"the file does not give the number of nodes: {nodes} x {_USUAL_GPUS} is assumed"
    draft.note(document.locate(path_of(world)), world, text, must_change=True)
    return nodes


def set_head(document: YamlDocument, draft: Draft, *, address: str, port: str) -> None:
    """Make an SSH profile of the head's address, which is all that such a file has of several nodes."""
    for key in ("master_address", "ports"):
        draft.profile.pop(key, None)
    num_nodes = draft.job.get("nodes", 1)
    head = find(document.tree, address)
    if not isinstance(num_nodes, int) or num_nodes < 2 or not isinstance(head, str) or "$" in head:
        return
    location = document.locate(path_of(address))
    draft.set("profile.backend", "ssh", location)
    draft.set("profile.nodes", [{"id": "node-0", "address": head}], location)
    text = f"the file has the address of the head only: add the other {num_nodes - 1} under `nodes` of the profile"
    draft.note(location, address, text, must_change=True)
    if (first := count(document, port)) is not None:
        draft.set("profile.ports", {"first": first, "last": first}, document.locate(path_of(port)))


@dataclass(frozen=True)
class Batch:
    """The keys of a file that give the batch, each None where the kind of file has none."""

    total: str  # sequences of one optimizer step over all ranks
    micro: str
    accumulation: str


def check_batch(document: YamlDocument, draft: Draft, keys: Batch, world: int | None) -> None:
    """Set the batch, after comparing what the file gives of it: total = micro-batch x accumulation x world size."""
    total, micro, steps = (count(document, key) for key in (keys.total, keys.micro, keys.accumulation))
    location, path = document.locate(path_of(keys.total)), path_of(keys.total)
    ranks = world
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
            ranks = total // product
            draft.note(location, keys.total, f"together with {spelled} it means a world size of {ranks}")
    elif micro and world:
        total = micro * (steps or 1) * world
    _set_batch(draft, document, keys, total, micro)


def _set_batch(draft: Draft, document: YamlDocument, keys: Batch, total: int | None, micro: int | None) -> None:
    given: dict[str, Any] = {keys.total: total, keys.micro: micro}
    for key, target in ((keys.total, "sequences"), (keys.micro, "micro_batch")):
        if given[key]:
            draft.set(f"trainer.batch.{target}", given[key], document.locate(path_of(key)))


