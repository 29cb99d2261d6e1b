"""The file of `accelerate launch --config_file` that the command of a job names."""

from __future__ import annotations

import os
from pathlib import Path

from fsdpctl.errors import UsageError
from fsdpctl.other_launchers.launcher_options.accelerate import ConfigError
from fsdpctl.schema.problems import one_line
from fsdpctl.schema.yaml_tree import YamlDocument, parse_mapping
from fsdpctl.specs.text import read_text

_DEFAULT = ("default_config.yaml", "default_config.json")


def read_accelerate_config(name: str | None) -> YamlDocument | None:
    """Return the file of this name, from the current directory; None: the default one of the user, if there is one.

    Raise ConfigError if it cannot be read, SpecError if it is no YAML or JSON.
    """
    path = _expand(name) if name is not None else _find_default()
    if path is None:
        return None
    try:
        text = read_text(path, "configuration")
    except UsageError as error:
        raise ConfigError(f"--config_file: {error.message}") from None
    source, is_json = one_line(str(path)), text.lstrip().startswith("{")
    return parse_mapping(text.replace("\t", " ") if is_json else text, source, f"configuration {source}")


def _find_default() -> Path | None:
    """Return the file of `accelerate config` in the cache of Hugging Face, where Accelerate looks for it."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = _expand(os.environ.get("HF_HOME") or f"{cache}/huggingface") / "accelerate"
    return next((folder / name for name in _DEFAULT if (folder / name).is_file()), None)


def _expand(name: str) -> Path:
    return Path(os.path.expanduser(name))  # noqa: PTH111 - Path's raises without a home
