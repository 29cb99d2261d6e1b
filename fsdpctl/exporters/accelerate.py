"""The configuration of `accelerate launch` for a script that uses Accelerate."""

from __future__ import annotations

from typing import Any

from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.exporters.exportable import Exportable, Exported, elsewhere
from fsdpctl.other_launchers.accelerate.keys import ROWS
from fsdpctl.schema.dump import dump_tree
from fsdpctl.schema.yaml_tree import read_scalar


def write(export: Exportable) -> Exported:
    """Return the YAML: FSDP 2 with the settings of `trainer`, or those in the variables of the user's script."""
    export = elsewhere(export)
    plan, trainer = export.plan, export.job.trainer
    fsdp = _fsdp_of(trainer) if trainer is not None else _fsdp_in(plan.env)
    precision = trainer.precision if trainer is not None else plan.env.get("ACCELERATE_MIXED_PRECISION", "no")
    tree: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP" if fsdp else _without_fsdp(export),
        "mixed_precision": {
            "auto": "bf16" if export.has_gpus else "no",
            "fp32": "no",
            "float8": "fp8",
        }.get(precision, precision),
        "num_machines": export.num_nodes,
        "num_processes": plan.world_size,
        "machine_rank": 0,
        **_head(export),
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": not export.has_gpus,
        **({"fsdp_config": fsdp} if fsdp else {}),
        **_parallelism(export),
    }
    return Exported(dump_tree(tree), tuple(_notes(export)))


def _without_fsdp(export: Exportable) -> str:
    if export.plan.world_size == 1:
        return "NO"
    return "MULTI_GPU" if export.has_gpus else "MULTI_CPU"


def _head(export: Exportable) -> dict[str, Any]:
    if export.num_nodes == 1:
        return {}
    plan = export.plan
    return {
        "main_process_ip": plan.head.address or plan.nodes[0].address or "CHANGE-ME",
        "main_process_port": plan.ports.first,
    }


def _fsdp_of(trainer: TrainerConfig) -> dict[str, Any]:
    """Return the settings of FSDP 2 that do what the bundled trainer does; none for DDP."""
    if trainer.mesh.strategy in ("DDP", "NO_SHARD"):
        return {}
    units = trainer.mesh.units
    wrap = "TRANSFORMER_BASED_WRAP"
    if units.parameters is not None:
        wrap = "SIZE_BASED_WRAP"
    elif units.blocks == 0:
        wrap = "NO_WRAP"
    return {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": trainer.mesh.reshards_after_forward,
        "fsdp_offload_params": trainer.memory.cpu_offload,
        "fsdp_auto_wrap_policy": wrap,
        **({"fsdp_min_num_params": units.parameters} if units.parameters is not None else {}),
        "fsdp_activation_checkpointing": trainer.memory.recompute != "none",
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }


def _parallelism(export: Exportable) -> dict[str, Any]:
    """Return the mesh where a replica is not the whole world."""
    mesh, key = export.plan.mesh, "parallelism_config"
    if mesh is None or mesh.replicate == 1 or mesh.shard == 1:
        return {}
    return {key: {f"{key}_dp_replicate_size": mesh.replicate, f"{key}_dp_shard_size": mesh.shard}}


def _fsdp_in(env: Any) -> dict[str, Any]:
    """Return the settings that `jobs import` has turned into variables."""
    section = "fsdp_config."
    rows = [row for row in ROWS if row.key.startswith(section) and row.env in env]
    found = {row.env: (row.key.removeprefix(section), read_scalar(env[row.env])) for row in reversed(rows)}
    return dict(reversed(found.values())) if env.get("ACCELERATE_USE_FSDP") == "true" else {}


def _notes(export: Exportable) -> list[str]:
    plan, trainer, notes = export.plan, export.job.trainer, []
    entry = " ".join([*(["-m"] if plan.entry.kind == "module" else []), plan.entry.target])
    if trainer is None:
        notes.append(f"start it with: accelerate launch --config_file FILE {entry} ...")
    else:
        notes.append("the bundled trainer does not use Accelerate: the file is for a script of your own")
        notes.append("batch, optimizer, schedule and checkpoints belong into that script")
    if export.num_nodes > 1:
        notes.append("machine_rank is another one on each node; main_process_ip is the head's address")
    if names := sorted({*plan.env, *plan.pass_env}):
        notes.append(f"variables must be set by hand: {', '.join(names)}")
    return notes
