"""DeepSpeed's JSON: the user's own script reads it itself; the bundled trainer gets the keys that it has, too."""

from __future__ import annotations

from fsdpctl.importers.keys.deepspeed import BATCH, LAST_RATIOS, OFFLOAD, ROWS, SCHEDULES, WARMUP_STEPS, ZERO
from fsdpctl.other_launchers.carry import carry, find, path_of
from fsdpctl.other_launchers.draft import Draft, Program
from fsdpctl.other_launchers.values import is_false
from fsdpctl.other_launchers.world import check_batch
from fsdpctl.schema.problems import show
from fsdpctl.schema.yaml_tree import YamlDocument


def read(document: YamlDocument, draft: Draft) -> None:
    """Carry a whole file over."""
    draft.args = ("--deepspeed", draft.source)
    carry(document, ROWS, draft)
    location = document.locate(())
    text = f"the script reads {draft.source} itself: it must take --deepspeed FILE"
    draft.note(location, "args", text, of=(Program.OWN,))
    draft.trainer.pop("batch", None)
    check_batch(document, draft, BATCH, world=None)
    _set_precision(document, draft)
    _set_optimizer(document, draft)
    _set_schedule(document, draft)
    _set_sharding(document, draft)


def _set_precision(document: YamlDocument, draft: Draft) -> None:
    enabled = [name for name in ("bf16", "fp16") if find(document.tree, f"{name}.enabled") in (True, "true")]
    if len(enabled) == 2:
        draft.problem(
            document.locate(("fp16", "enabled")), ("fp16", "enabled"), "bf16 is enabled, too; keep one of them"
        )
    elif enabled:
        draft.set("trainer.precision", enabled[0], document.locate((enabled[0], "enabled")))
    elif all(is_false(find(document.tree, f"{name}.enabled")) for name in ("bf16", "fp16")):
        draft.set("trainer.precision", "fp32", document.locate(("bf16", "enabled")))


def _set_optimizer(document: YamlDocument, draft: Draft) -> None:
    path = path_of("optimizer.params.betas")
    if isinstance(betas := find(document.tree, "optimizer.params.betas"), list):
        if len(betas) == 2:
            draft.set("trainer.optim.beta1", betas[0], document.locate(path))
            draft.set("trainer.optim.beta2", betas[1], document.locate(path))
        else:
            draft.problem(document.locate(path), path, "must be two numbers, like [0.9, 0.999]")
    rates = {key: find(document.tree, key) for key in ("optimizer.params.lr", "scheduler.params.warmup_max_lr")}
    own, scheduled = rates.values()
    if isinstance(own, int | float) and isinstance(scheduled, int | float) and own != scheduled:
        path = path_of("scheduler.params.warmup_max_lr")
        draft.problem(
            document.locate(path), path, f"{show(scheduled)}, but optimizer.params.lr is {show(own)}: keep one"
        )


def _set_schedule(document: YamlDocument, draft: Draft) -> None:
    """Set what the scheduler of DeepSpeed has by default."""
    name = str(find(document.tree, "scheduler.type")).lower()
    if name in LAST_RATIOS:
        draft.trainer.setdefault("optim", {}).setdefault("min_lr_ratio", LAST_RATIOS[name])
    if name not in SCHEDULES:
        return
    location = document.locate(path_of("scheduler.type"))
    if find(document.tree, key := "scheduler.params.warmup_num_steps") is None:
        draft.set("trainer.optim.warmup_steps", WARMUP_STEPS, location)
        draft.note(location, key, f"DeepSpeed's default of {WARMUP_STEPS} is taken", of=(Program.TRAINER,))
    if find(document.tree, key := "scheduler.params.warmup_type") is None:
        text = "the warm-up is linear here; DeepSpeed's default is log"
        draft.note(location, key, text, of=(Program.TRAINER,))


def _set_sharding(document: YamlDocument, draft: Draft) -> None:
    """Turn what depends on the stage into keys: groups of MiCS, and offload."""
    tree = document.tree
    stage = find(tree, f"{ZERO}.stage")
    location = document.locate(path_of(f"{ZERO}.stage"))
    if stage == 1:
        text = "stage 1 shards moments only: SHARD_GRAD_OP is the next one, and needs less memory"
        draft.note(location, f"{ZERO}.stage", text, of=(Program.TRAINER,))
    if stage == 3 and find(tree, f"{ZERO}.mics_shard_size"):
        draft.set("trainer.mesh.strategy", "HYBRID_SHARD", document.locate(path_of(f"{ZERO}.mics_shard_size")))
    for part, smallest in (("offload_optimizer", 1), ("offload_param", 3)):
        path = (ZERO, part, "device")
        device = find(tree, f"{ZERO}.{part}.device")
        if device in (None, "none"):
            continue
        if isinstance(stage, int) and stage < smallest:
            draft.problem(document.locate(path), path, f"{part} needs stage {smallest} or more, and stage is {stage}")
        elif device == "cpu":
            draft.set("trainer.memory.cpu_offload", True, document.locate(path))
            draft.note(document.locate(path), f"{ZERO}.{part}", OFFLOAD, of=(Program.TRAINER,))
