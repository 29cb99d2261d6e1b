"""`--backend KEY=VALUE`: changes the section `backend` of a profile for one run, before validation."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Any

from fsdpctl.backends.profile_keys import SECTIONS, expand_kind
from fsdpctl.backends.section import BackendSection
from fsdpctl.schema.keys import hints_of
from fsdpctl.schema.override import read_value, set_value
from fsdpctl.schema.problems import Location, fail, shorten
from fsdpctl.schema.yaml_tree import YamlDocument

_SECTION = "backend"
_OPTIONS = "extra"
"""The key with further options of the scheduler, in sections that have it."""


def apply_backend_arguments(document: YamlDocument, arguments: Sequence[str]) -> None:
    """Set each `KEY=VALUE` in the profile's backend, in order. Raise SpecError for malformed ones.

    A scheduler's section takes any other option of the scheduler too, with or without a value.
    """
    if not arguments:
        return
    section = expand_kind(document.tree.get(_SECTION) or "local")
    kind = str(section.get("kind", "local")) if isinstance(section, dict) else ""
    keys = hints_of(SECTIONS.get(kind, BackendSection))  # of an unknown kind: validation reports it
    document.tree[_SECTION] = section
    for argument in arguments:
        location = Location(f"--backend {shorten(argument)}")
        name, equals, value = argument.partition("=")
        path = (_SECTION, *name.replace("-", "_").split("."))
        key = path[1]
        if key == "kind":
            fail(document.what, location, f"the profile is for {kind}; --profile names another one")
        if key not in keys and _OPTIONS in keys and name:
            _set_option(document, name, argument, location)
        elif equals and all(map(str.isidentifier, path)):
            is_text = value[:1] not in ("", *"[{'\"") and _takes_text(keys.get(key))
            given = YamlDocument(document.what, value) if is_text else read_value(document.what, value, location)
            set_value(document, path, given, location)
        else:
            fail(document.what, location, "must be like partition=short: a key, '=', a value")


def _set_option(document: YamlDocument, name: str, argument: str, location: Location) -> None:
    """Add the scheduler's option, or replace the one of this name."""
    options = document.tree[_SECTION].setdefault(_OPTIONS, [])
    if not isinstance(options, list):  # validation reports it
        return
    names = [str(option).partition("=")[0] for option in options]
    index = names.index(f"--{name}") if f"--{name}" in names else len(options)
    options[index:] = [f"--{argument}", *options[index + 1 :]]
    document.locations[(_SECTION, _OPTIONS, index)] = location


def _takes_text(hint: Any) -> bool:
    """Return whether a key of this type is text: all of the command line is, a number too."""
    return hint is str or any(_takes_text(inner) for inner in typing.get_args(hint))
