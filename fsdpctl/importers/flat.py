"""The YAML of hand-written FSDP trainers: on one level or several, with the names that such programs use."""

from __future__ import annotations

from fsdpctl.importers.keys.flat import ACCUMULATION, MODEL, NODES, PROCS, ROWS, SIZES, WORLD, row_name
from fsdpctl.importers.spellings import PER_RANK_OR_ALL, batch_names, check_spellings, key_of
from fsdpctl.other_launchers.carry import carry, find, path_of
from fsdpctl.other_launchers.draft import Draft, Program
from fsdpctl.other_launchers.values import (
    WrongError,
    is_true,
    strategy,
)
from fsdpctl.other_launchers.world import Batch, check_batch, count, set_world
from fsdpctl.schema.problems import show
from fsdpctl.schema.yaml_tree import YamlDocument


def read(document: YamlDocument, draft: Draft) -> None:
    """Carry a whole file over."""
    draft.args = ("--config", draft.source)
    carry(document, ROWS, draft, row_name)
    check_spellings(document, draft)
    text = f"the script reads {draft.source} itself: it must take --config FILE"
    draft.note(document.locate(()), "args", text, of=(Program.OWN,))
    _set_fsdp(document, draft)
    world_key, nodes_key, procs_key = (key_of(document, names) for names in (WORLD, NODES, PROCS))
    noted = {note.key for note in draft.notes[Program.OWN]}
    for key in sorted({world_key, nodes_key, procs_key} - noted):
        if (given := find(document.tree, key)) is not None and count(document, key) is None:
            draft.note(
                document.locate(path_of(key)), key, f"{show(given)} is no number of ranks or nodes, and left out"
            )
    procs_key = _compare_worlds(document, draft, world_key, nodes_key, procs_key)
    set_world(document, draft, nodes=nodes_key, world=world_key, procs=procs_key)
    if (nodes := count(document, nodes_key)) is not None:
        draft.set("job.nodes", nodes, document.locate(tuple(nodes_key.split("."))))
    draft.trainer.pop("batch", None)
    keys = Batch(*(key_of(document, names) for names in (*batch_names(document), ACCUMULATION)))
    world, nodes, procs = (count(document, key) for key in (world_key, nodes_key, procs_key))
    check_batch(document, draft, keys, world or (nodes * procs if nodes and procs else None))
    readings = {keys.micro: "of one rank in one forward pass", keys.total: "of one step of all ranks"}
    for key, reading in readings.items():
        if key.rpartition(".")[2] == PER_RANK_OR_ALL and count(document, key):
            text = f"taken as the sequences {reading}"
            draft.note(document.locate(tuple(key.split("."))), key, text, of=(Program.TRAINER,))
    _complete_model(document, draft)


def _compare_worlds(document: YamlDocument, draft: Draft, world_key: str, nodes_key: str, procs_key: str) -> str:
    """Compare names of the world size, and return the key of the ranks per node: `gpus` may mean those of a node."""
    world, nodes = count(document, world_key), count(document, nodes_key)
    for name in WORLD:
        key = key_of(document, (name,))
        if not world or (given := count(document, key)) in (None, world):
            continue
        location = document.locate(path_of(key))
        is_of_node = (
            count(document, procs_key) in (None, given) and world % given == 0 and nodes in (None, world // given)
        )
        if is_of_node:
            draft.note(location, key, f"taken as the ranks of a node: {world_key} is {world}")
            procs_key = key
        else:
            draft.problem(location, path_of(key), f"{given}, but {world_key} is {world}; keep one of them")
    return procs_key


def _set_fsdp(document: YamlDocument, draft: Draft) -> None:
    """Read the key `fsdp`: true, false, or a strategy."""
    given = document.tree.get("fsdp")
    if given is None or isinstance(given, dict):
        return
    location, path = document.locate(("fsdp",)), ("fsdp",)
    named = draft.trainer.get("mesh", {}).get("strategy")
    try:
        if str(given).lower() not in ("true", "false"):
            draft.set("trainer.mesh.strategy", strategy(given), location)
        elif not is_true(given) and named not in (None, "DDP", "NO_SHARD"):
            draft.problem(location, path, f"is {show(given)}, but the strategy is {named}; keep one of them")
        elif not is_true(given):
            draft.set("trainer.mesh.strategy", "DDP", location)
        elif named == "DDP":
            draft.problem(location, path, f"is {show(given)}, but the strategy is DDP; keep one of them")
    except WrongError as error:
        draft.problem(location, path, str(error))


def _complete_model(document: YamlDocument, draft: Draft) -> None:
    """Keep the model if the file has all of a run of the bundled trainer; else it is the user's own."""
    trainer = draft.trainer
    model = trainer.get("model", {})
    heads, width = model.get("heads"), model.get("d_model")
    if isinstance(heads, int) and heads > 0:
        model.setdefault("kv_heads", heads)
        if isinstance(width, int) and width % heads == 0:
            model.setdefault("head_dim", width // heads)
    if "model" not in trainer:
        return
    missing = [f"model.{key}" for key in MODEL if key not in model]
    missing += [key for key in ("steps",) if key not in trainer]
    missing += [f"batch.{key}" for key in ("sequences", "micro_batch") if key not in trainer.get("batch", {})]
    missing += ["optim.lr"] if "lr" not in trainer.get("optim", {}) else []
    location = document.locate(())
    if missing:
        text = f"a job of the bundled trainer would need {', '.join(missing)}, too"
        draft.note(location, "model", text, of=(Program.OWN,))
        _leave_sizes(draft)
        return
    draft.is_whole = True
    if "every_steps" not in trainer.get("checkpoint", {}):
        every = max(1, trainer["steps"] // 10)
        draft.set("trainer.checkpoint.every_steps", every, location)
        draft.note(location, "checkpoint.every_steps", f"{every}, a tenth of all steps: the file does not give it")


def _leave_sizes(draft: Draft) -> None:
    """Remove sizes that are not a whole model: half of them do not fit to the other half, that of another job."""
    model = draft.trainer["model"]
    missing = [key for key in SIZES if key not in model]
    for key in SIZES if missing else ():
        location = draft.trainer_locations.get(("model", key))
        if model.pop(key, None) is not None and location is not None:
            text = f"the model is that of --from: the file does not have its {', '.join(missing)}"
            draft.note(location, f"model.{key}", text, of=(Program.TRAINER,))
