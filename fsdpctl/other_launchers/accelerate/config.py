"""Configurations of `accelerate config`: FSDP 1 and 2, DDP, and DeepSpeed by its plugin.

The user's own script gets the same settings as from `accelerate launch`: by environment variables.
"""

from __future__ import annotations

import math
from typing import Any

from fsdpctl.other_launchers.accelerate.keys import PARALLEL, ROWS, reshard_strategy
from fsdpctl.other_launchers.accelerate.launcher_env import add_launcher_env
from fsdpctl.other_launchers.carry import carry, find, path_of
from fsdpctl.other_launchers.draft import Draft, Program
from fsdpctl.other_launchers.values import strategy
from fsdpctl.other_launchers.world import count, note_batch, set_head, set_world
from fsdpctl.schema.problems import KeyPath, show
from fsdpctl.schema.yaml_tree import YamlDocument


def read_file(document: YamlDocument, draft: Draft) -> None:
    """Carry a whole file over, with what `accelerate launch` sets besides its keys."""
    read(document, draft)
    add_launcher_env(draft, str(document.tree.get("distributed_type", "")).upper())


def read(document: YamlDocument, draft: Draft) -> None:
    """Carry the keys of a configuration over."""
    tree = document.tree
    _complete_names(document)
    carry(document, ROWS, draft)
    kind = str(tree.get("distributed_type", "")).upper()
    _check_kind(document, draft, kind)
    _check_fsdp(document, draft)
    if kind in ("MULTI_GPU", "MULTI_CPU"):
        draft.set("trainer.mesh.strategy", "DDP", document.locate(("distributed_type",)))
    elif kind == "FSDP":
        draft.env["ACCELERATE_USE_FSDP"] = "true"
    elif kind == "DEEPSPEED":
        draft.env["ACCELERATE_USE_DEEPSPEED"] = "true"
        draft.env["ACCELERATE_CONFIG_DS_FIELDS"] = _deepspeed_fields(document)
    if kind == "MULTI_CPU" or str(tree.get("use_cpu")).lower() == "true":
        draft.set("profile.gpus_per_node", 0, document.locate(("use_cpu",)))
    for key in ("offload_optimizer_device", "offload_param_device"):
        if find(tree, f"deepspeed_config.{key}") == "cpu":
            draft.set("trainer.memory.cpu_offload", True, document.locate(("deepspeed_config", key)))
    steps_key = "deepspeed_config.gradient_accumulation_steps"
    note_batch(draft, document.locate(path_of(steps_key)), steps_key, None, count(document, steps_key))
    _check_rank(document, draft)
    _set_units(document, draft)
    _set_mesh(document, draft)
    set_world(document, draft, nodes="num_machines", world="num_processes")
    set_head(document, draft, address="main_process_ip", port="main_process_port")


def _complete_names(document: YamlDocument) -> None:
    """Give keys their prefix, which Accelerate lets a section leave out: `version` in `fsdp_config`."""
    for section, prefix in (("fsdp_config", "fsdp_"), ("dynamo_config", "dynamo_")):
        given = document.tree.get(section)
        if not isinstance(given, dict):
            continue
        for key in [key for key in given if not key.startswith(prefix.rstrip("_"))]:
            given[f"{prefix}{key}"] = given.pop(key)
            document.locations[section, f"{prefix}{key}"] = document.locate((section, key))


def _deepspeed_fields(document: YamlDocument) -> str:
    """Return the keys of the file, by which Accelerate finds contradictions with a file of DeepSpeed."""
    if not document.what:  # options alone
        return ""
    source, section = document.locate(()).source, document.tree.get("deepspeed_config")
    fields: list[KeyPath] = [("deepspeed_config", key) for key in (section if isinstance(section, dict) else {})]
    if document.tree.get("mixed_precision") is not None:
        fields.append(("mixed_precision",))
    return ",".join(str(path[-1]) for path in fields if document.locate(path).source == source).lower()


def _check_kind(document: YamlDocument, draft: Draft, kind: str) -> None:
    """Name a section that the launcher would not read, because the file chooses another one."""
    sections = {"FSDP": "fsdp_config", "DEEPSPEED": "deepspeed_config"}
    for owner, section in sections.items():
        if document.tree.get(section) and kind and kind != owner:
            text = f"it has no effect with distributed_type {kind}; set distributed_type to {owner}, or remove it"
            draft.problem(document.locate((section,)), (section,), text)


def _check_rank(document: YamlDocument, draft: Draft) -> None:
    rank, machines = document.tree.get("machine_rank"), document.tree.get("num_machines")
    if isinstance(rank, int) and isinstance(machines, int) and not 0 <= rank < max(machines, 1):
        text = f"{rank}, but num_machines is {machines}: ranks are 0 to {machines - 1}"
        draft.problem(document.locate(("machine_rank",)), ("machine_rank",), text)


def _check_fsdp(document: YamlDocument, draft: Draft) -> None:
    given = document.tree.get("fsdp_config")
    given = given if isinstance(given, dict) else {}

    def problem(key: str, text: str) -> None:
        path = ("fsdp_config", key)
        draft.problem(document.locate(path), path, text)

    if (version := given.get("fsdp_version")) not in (None, 1, 2, "1", "2"):
        problem("fsdp_version", f"must be 1 or 2, got {show(version)}")
    if given.get("fsdp_cpu_ram_efficient_loading") is True and given.get("fsdp_sync_module_states") is False:
        problem(
            "fsdp_sync_module_states", "must be true with fsdp_cpu_ram_efficient_loading: other ranks have no weights"
        )
    both = {key: given[key] for key in ("fsdp_sharding_strategy", "fsdp_reshard_after_forward") if key in given}
    if len(both) == 2:
        _check_reshard(draft, both, problem)


def _set_mesh(document: YamlDocument, draft: Draft) -> None:
    """Turn the sizes of a parallelism_config into a mesh, after the checks of `accelerate launch`."""
    sizes = {
        kind: count(document, f"{PARALLEL}.{PARALLEL}_{kind}_size") or 1
        for kind in ("dp_replicate", "dp_shard", "tp", "cp", "sp")
    }
    if not document.tree.get(PARALLEL):
        return
    draft.env["ACCELERATE_USE_PARALLELISM_CONFIG"] = "true"
    location, path = document.locate((PARALLEL,)), (PARALLEL,)
    if find(document.tree, "fsdp_config.fsdp_version") not in (2, "2"):
        draft.problem(location, path, "needs fsdp_config with fsdp_version 2")
    ranks, world = math.prod(sizes.values()), count(document, "num_processes")
    if world and ranks != world:
        spelled = " x ".join(f"{kind} {size}" for kind, size in sizes.items() if size > 1) or "all sizes are 1"
        draft.problem(location, path, f"{spelled} = {ranks}, but num_processes is {world}")
    hybrid = {"FULL_SHARD": "HYBRID_SHARD", "SHARD_GRAD_OP": "_HYBRID_SHARD_ZERO2"}
    mesh = draft.trainer.get("mesh", {})
    if sizes["dp_replicate"] > 1 and mesh.get("strategy") in hybrid:
        mesh["strategy"] = hybrid[mesh["strategy"]]


def _check_reshard(draft: Draft, both: dict[str, Any], problem: Any) -> None:
    """Compare the older and the newer key, which mean the same."""
    try:
        named, resharded = (
            strategy(both["fsdp_sharding_strategy"]),
            reshard_strategy(both["fsdp_reshard_after_forward"]),
        )
    except ValueError:  # reported already
        return
    reshards = {"FULL_SHARD": True, "HYBRID_SHARD": True, "SHARD_GRAD_OP": False, "_HYBRID_SHARD_ZERO2": False}
    if reshards.get(named) != reshards.get(resharded):
        problem("fsdp_reshard_after_forward", f"contradicts fsdp_sharding_strategy {named}; keep one of them")
    else:
        draft.trainer["mesh"]["strategy"] = named


def _set_units(document: YamlDocument, draft: Draft) -> None:
    """Turn the wrap policy into units."""
    policy = find(document.tree, "fsdp_config.fsdp_auto_wrap_policy")
    smallest = find(document.tree, "fsdp_config.fsdp_min_num_params")
    location = document.locate(path_of("fsdp_config.fsdp_auto_wrap_policy"))
    if policy in ("NO_WRAP", 3):
        draft.set("trainer.mesh.units.blocks", 0, location)
    elif policy in ("SIZE_BASED_WRAP", 2) and smallest:
        draft.set("trainer.mesh.units.parameters", smallest, location)
    elif policy in ("SIZE_BASED_WRAP", 2):
        draft.note(
            location, "fsdp_auto_wrap_policy", "has no fsdp_min_num_params: units are blocks", of=(Program.TRAINER,)
        )
