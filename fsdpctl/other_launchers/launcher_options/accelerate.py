"""The options of `accelerate launch`: they override the keys of its configuration."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from fsdpctl.other_launchers.accelerate.config import read
from fsdpctl.other_launchers.accelerate.keys import ROWS
from fsdpctl.other_launchers.accelerate.launcher_env import add_launcher_env
from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.launcher_options.program import carry_program
from fsdpctl.other_launchers.launcher_options.ranks import check_nodes, set_restarts
from fsdpctl.other_launchers.shell.commands import Launch
from fsdpctl.other_launchers.shell.options import Parsed, Syntax
from fsdpctl.other_launchers.shell.statements import PATTERN, plain
from fsdpctl.other_launchers.shell.variables import is_resolved, unknown_in
from fsdpctl.schema.problems import Location, did_you_mean, shorten
from fsdpctl.schema.yaml_tree import YamlDocument, read_scalar

ReadConfig = Callable[[str | None], YamlDocument | None]
"""Read the configuration of this name; of None: the default one of the user, which may not exist. Raise ConfigError."""


class ConfigError(ValueError):
    """The configuration that a command names cannot be read."""


SYNTAX = Syntax(
    short={"-m": "module", "-t": "tee", "-q": "quiet"},
    flags=(
        *("quiet", "cpu", "multi-gpu", "tpu", "module", "no-python", "debug", "same-network", "enable-cpu-affinity"),
        *("dynamo-use-fullgraph", "dynamo-use-dynamic", "dynamo-use-regional-compilation", "downcast-bf16"),
        *("use-deepspeed", "use-fsdp", "use-parallelism-config", "use-megatron-lm"),
        *("tpu-cluster", "no-tpu-cluster", "tpu-use-sudo"),
    ),
)
_KEYS = {row.key.rpartition(".")[2]: row.key for row in reversed(ROWS)}
_RENDEZVOUS = ("main-process-ip", "main-process-port", "machine-rank")
_LOGS = ("tee", "log-dir")
_SILENT = ("config-file", "quiet", "module", "no-python", "use-parallelism-config", "rdzv-conf", "monitor-interval")
_KINDS = {"use-deepspeed": "DEEPSPEED", "use-fsdp": "FSDP", "multi-gpu": "MULTI_GPU"}
_CHANGE = {
    "tpu": "runs are on GPUs or CPUs",
    "use-megatron-lm": "settings of Megatron-LM are not passed on: write its variables in `env`",
    "mpirun-hostfile": "torchrun starts the ranks on CPUs, too: leave it away",
}
_FP8 = "write it as a variable in `env`: ACCELERATE_FP8_... of the same name"


def carry(draft: Draft, launch: Launch, parsed: Parsed, location: Location, read_config: ReadConfig | None) -> None:
    """Carry a command over. `read_config` None: no other file is opened."""
    options = _tree(draft, parsed, location)
    name = parsed.get("config-file")
    config = None
    if name and read_config is None:
        text = f"its settings are not read here: fsdpctl jobs import {shorten(name)} --script FILE"
        draft.note(location, "--config_file", text, must_change=True)
    elif name and not is_resolved(name.replace(f"{PATTERN}~", "~")):
        text = f"no shell fills in {shorten(unknown_in(name))}: write the path"
        draft.note(location, "--config_file", text, must_change=True)
    elif read_config is not None and (name or "cpu" not in parsed):
        config = read_config(plain(name) if name else None)
        if config is not None and not name:
            text = f"{config.locate(()).source} is read, the default configuration, as `accelerate launch` does"
            draft.note(location, "accelerate", text)
    given = next((kind for option, kind in _KINDS.items() if option in parsed), None)
    document = _overlay(config, options, location)
    kind = given or (config.tree.get("distributed_type") if config else None) or _guess(options)
    document.tree["distributed_type"] = kind
    if config is not None or options or given:
        read(document, draft)
    if not (name and read_config is None):
        add_launcher_env(draft, str(kind).upper())
    if "num_machines" in options:
        _check_machines(draft, options["num_machines"], location)
    carry_program(draft, launch, parsed, location)


def _check_machines(draft: Draft, machines: object, location: Location) -> None:
    if isinstance(machines, int):
        check_nodes(draft, "--num_machines", machines, location)


def _tree(draft: Draft, parsed: Parsed, location: Location) -> dict[str, Any]:
    """Return the options as a configuration has them, and note those that have no key in one."""
    tree: dict[str, Any] = {}
    for name, value in parsed.options:
        key = name.replace("-", "_")
        option = f"--{key}"
        if name in _SILENT or name in _KINDS or (name in _RENDEZVOUS and not is_resolved(value or "")):
            continue  # the head is found when the run starts
        if name == "cpu":
            tree["use_cpu"] = True
        elif name == "max-restarts":
            set_restarts(draft, value, location)
        elif name in _LOGS:
            draft.note(location, option, "logs of all ranks are in the run directory: `fsdpctl logs`")
        elif name in _CHANGE or name.startswith("tpu") or name.startswith("megatron-lm"):
            text = _CHANGE.get(name, _CHANGE["tpu" if name.startswith("tpu") else "use-megatron-lm"])
            draft.note(location, option, text, must_change=True)
        elif name.startswith("fp8-"):
            draft.note(location, option, _FP8, must_change=True)
        elif key in _KEYS:
            section, _, last = _KEYS[key].rpartition(".")
            place = tree.setdefault(section, {}) if section else tree
            place[last] = True if value is None and name in SYNTAX.flags else _scalar(value or "")
        else:
            draft.note(location, option, f"not known here{did_you_mean(key, _KEYS)}", must_change=True)
    return tree


def _scalar(word: str) -> object:
    """Return the value of an option as YAML would have it; one that the shell would fill in stays text."""
    try:
        return read_scalar(plain(word)) if is_resolved(word) else word.replace(PATTERN, "")
    except ValueError:
        return word


def _guess(options: dict[str, Any]) -> str:
    if "fsdp_config" in options:
        return "FSDP"
    return "DEEPSPEED" if "deepspeed_config" in options else "NO" if options.get("use_cpu") else "MULTI_GPU"


def _overlay(config: YamlDocument | None, options: dict[str, Any], location: Location) -> YamlDocument:
    """Return the configuration with the options in place of its keys."""
    if config is None:
        return YamlDocument("", options, {(): location})
    document = YamlDocument(config.what, copy.deepcopy(config.tree), dict(config.locations))
    for key, value in options.items():
        if isinstance(value, dict):
            section = document.tree.get(key)
            document.tree[key] = {**(section if isinstance(section, dict) else {}), **value}
            document.locations |= {(key, last): location for last in value}
        else:
            document.tree[key] = value
            document.locations[key,] = location
    return document
