"""Write a spec as YAML that the loader reads back to an equal value."""

from __future__ import annotations

from typing import Any

import yaml

from fsdpctl.schema.spec import Spec
from fsdpctl.schema.yaml_tree import read_scalar


def dump_yaml(spec: Spec) -> str:
    """Return a spec as YAML with its defaults filled in, without unset keys."""
    return dump_tree(spec.model_dump(mode="json", exclude_none=True))


def dump_tree(tree: Any) -> str:
    """Return a tree of mappings, lists and scalars as YAML."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, width=float("inf"))


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True  # write equal values out: the loader refuses aliases


def _write_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    plain = text.isascii() and text.isprintable() and _is_text(text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


def _is_text(text: str) -> bool:
    try:
        return isinstance(read_scalar(text), str)
    except ValueError:
        return False


_Dumper.add_representer(str, _write_text)
