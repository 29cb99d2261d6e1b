"""JSON of transformers' TrainingArguments, with `fsdp` and `fsdp_config`."""

from __future__ import annotations

import math
from typing import Any

from fsdpctl.importers.keys.training_arguments import ENDS_AT_ZERO, FSDP_OPTIONS, ROWS
from fsdpctl.other_launchers.carry import AUTO, carry, find
from fsdpctl.other_launchers.draft import Draft, Program
from fsdpctl.other_launchers.values import WrongError, is_false
from fsdpctl.other_launchers.world import count, note_batch
from fsdpctl.schema.problems import did_you_mean, show
from fsdpctl.schema.yaml_tree import YamlDocument


def read(document: YamlDocument, draft: Draft) -> None:
    """Carry a whole file over."""
    draft.args = (draft.source,)
    carry(document, ROWS, draft)
    text = f"the script reads {draft.source} itself: it must take one JSON file, as HfArgumentParser does"
    draft.note(document.locate(()), "args", text, of=(Program.OWN,))
    _set_precision(document, draft)
    if any(
        find(document.tree, key) is True for key in ("gradient_checkpointing", "fsdp_config.activation_checkpointing")
    ):
        draft.trainer["memory"]["recompute"] = "full"
    _set_fsdp(document, draft)
    _set_lengths(document, draft)
    _set_never(document, draft)
    if document.tree.get("lr_scheduler_type") in ENDS_AT_ZERO:
        optim = draft.trainer.setdefault("optim", {})
        optim.setdefault("min_lr_ratio", 0)
    key = "per_device_train_batch_size"
    steps = count(document, "gradient_accumulation_steps")
    note_batch(draft, document.locate((key,)), key, count(document, key), steps)


def _set_precision(document: YamlDocument, draft: Draft) -> None:
    enabled = [name for name in ("bf16", "fp16") if document.tree.get(name) in (True, "true")]
    if len(enabled) == 2:
        draft.problem(document.locate(("fp16",)), ("fp16",), "bf16 is true, too; keep one of them")
    elif enabled:
        draft.set("trainer.precision", enabled[0], document.locate((enabled[0],)))
    elif is_false(document.tree.get("bf16")) and is_false(document.tree.get("fp16")):
        draft.set("trainer.precision", "fp32", document.locate(("bf16",)))


def _set_fsdp(document: YamlDocument, draft: Draft) -> None:
    """Read the words of `fsdp`, one text or a list."""
    given, location = document.tree.get("fsdp"), document.locate(("fsdp",))
    config = document.tree.get("fsdp_config")
    if isinstance(config, str):
        text = "is the path of a file, which is not opened: put its content here, or import it, too"
        draft.note(document.locate(("fsdp_config",)), "fsdp_config", text, of=(Program.TRAINER,))
    try:
        words = ["full_shard"] if given is True else read_options(given)
    except WrongError as error:
        draft.problem(location, ("fsdp",), str(error))
        return
    strategies = [FSDP_OPTIONS[word] for word in words if FSDP_OPTIONS[word]]
    if len(strategies) > 1:
        draft.problem(
            location, ("fsdp",), f"has {len(strategies)} strategies, {' and '.join(map(str, strategies))}; keep one"
        )
    elif strategies:
        draft.set("trainer.mesh.strategy", strategies[0], location)
        _check_reshard(document, draft, str(strategies[0]))
    elif "offload" in words or "auto_wrap" in words:
        draft.problem(location, ("fsdp",), f"{show(' '.join(words))} has no strategy; add full_shard or another one")
    elif isinstance(config, dict) and any(config.values()):  # transformers writes its defaults always
        text = "has no effect while `fsdp` names no strategy; add one, or remove it"
        draft.problem(document.locate(("fsdp_config",)), ("fsdp_config",), text)
    if "offload" in words:
        draft.set("trainer.memory.cpu_offload", True, location)


def _check_reshard(document: YamlDocument, draft: Draft, named: str) -> None:
    """FSDP 2 decides by this key whether parameters are kept after the forward pass."""
    path = ("fsdp_config", "reshard_after_forward")
    given = find(document.tree, "fsdp_config.reshard_after_forward")
    if given is False and named == "FULL_SHARD":
        draft.set("trainer.mesh.strategy", "SHARD_GRAD_OP", document.locate(path))
    elif isinstance(given, str) and given not in (AUTO, "true", "false") and given.upper() != named.lstrip("_"):
        draft.problem(document.locate(path), path, f"{show(given)} contradicts fsdp {named}; keep one of them")


def read_options(given: Any) -> list[str]:
    """Return the words of `fsdp`. Raise WrongError for one that does not exist."""
    parts = given if isinstance(given, list) else str(given or "").replace(",", " ").split()
    words = [str(word).lower() for word in parts]
    for word in words:
        if word not in FSDP_OPTIONS:
            raise WrongError(
                f"{show(word)} is no option{did_you_mean(word, FSDP_OPTIONS)}; there are {', '.join(FSDP_OPTIONS)}"
            )
    return words


def _set_never(document: YamlDocument, draft: Draft) -> None:
    """Turn strategies that evaluate or save never into a job that does neither."""
    never = ("no", False)
    for key in ("eval_strategy", "evaluation_strategy"):
        if document.tree.get(key) in never:
            draft.set("trainer.eval.sequences", 0, document.locate((key,)))
            draft.trainer["eval"].pop("every_steps", None)
    if document.tree.get("save_strategy") in never:
        draft.set("trainer.checkpoint.mode", "none", document.locate(("save_strategy",)))


def _set_lengths(document: YamlDocument, draft: Draft) -> None:
    """Turn fractions of the run into steps, where its length is known."""
    steps, tree = draft.trainer.get("steps"), document.tree
    key = "warmup_steps" if tree.get("warmup_steps") else "warmup_ratio"
    ratio, location = tree.get(key), document.locate((key,))
    if isinstance(ratio, float) and 0 < ratio < 1:
        draft.trainer.get("optim", {}).pop("warmup_steps", None)
        if steps:
            draft.set("trainer.optim.warmup_steps", math.ceil(ratio * steps), location)
        else:
            draft.note(location, key, "max_steps is not given: write optim.warmup_steps", of=(Program.TRAINER,))
    if document.tree.get("num_train_epochs") and not steps:
        text = "depends on the size of the data: write trainer.steps"
        draft.note(
            document.locate(("num_train_epochs",)), "num_train_epochs", text, must_change=True, of=(Program.TRAINER,)
        )
