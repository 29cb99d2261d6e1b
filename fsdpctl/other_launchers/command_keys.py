"""From what a command was found to mean to the keys of its job, and to problems and notices of the file."""

from __future__ import annotations

from typing import Any

from fsdpctl.other_launchers.draft import Draft, Program
from fsdpctl.schema.problems import KeyPath, LocatedProblem, Location, show
from fsdpctl.schema.yaml_tree import YamlDocument

COMMAND_PATH: KeyPath = ("command",)
REPLACED = ("entrypoint", "args")
"""Keys that the command replaces."""


def report(document: YamlDocument, draft: Draft, location: Location) -> None:
    """Add what must change to the problems, all else to the notices."""
    for problem in draft.problems:
        whole = ": ".join([*map(str, problem.path), problem.text])
        document.problems.append(LocatedProblem(problem.location, COMMAND_PATH, whole))
    for note in draft.notes[Program.OWN]:
        found = LocatedProblem(note.location, COMMAND_PATH, f"{note.key}: {note.text}")
        (document.problems if note.must_change else document.notices).append(found)
    for name in draft.profile.pop("pass_env", ()):
        text = f"{name}: a secret does not belong into a file: remove it, and write `pass_env: [{name}]` in the profile"
        document.problems.append(LocatedProblem(location, COMMAND_PATH, text))
    for key, value in _of_profile(draft.profile):
        text = f"{key}: {show(value)} is for the profile: write it there, as a job has no such key"
        document.notices.append(LocatedProblem(location, COMMAND_PATH, text))


def _of_profile(profile: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the keys of a profile that the command has, by their names there."""
    backend = profile.get("backend")
    inner = backend.items() if isinstance(backend, dict) else ()
    flat = [(key, value) for key, value in profile.items() if key != "backend"]
    flat += [(f"backend.{key}", value) for key, value in inner if key != "kind"]
    return [pair for pair in flat if pair != ("rendezvous", "static")]


def place_keys(document: YamlDocument, draft: Draft, location: Location) -> None:
    """Set the keys in the document. Those of the job itself stay, and must not contradict the command."""
    tree, found = document.tree, {**draft.job}
    found.setdefault("entrypoint", {"script": "train.py"})  # of a wrong command: other problems are found all the same
    env = {**draft.env, **found.pop("env", {})}
    for key in REPLACED:
        place = document.locate((key,))
        if key in tree and place.line is not None:
            text = "`command` has the program and its arguments: remove one of the two"
            document.problems.append(LocatedProblem(place, (key,), text))
    for key, value in found.items():
        source = draft.job_locations.get((key,), location)
        if tree.get(key) is None:
            tree[key] = value
            document.locations[key,] = source
            document.locations |= {(key, inner): source for inner in (value if isinstance(value, dict) else ())}
        elif tree[key] != value and key not in REPLACED:
            _compare(document, key, value, source, is_of_command=source == location)
    if env and isinstance(tree.get("env", {}), dict):
        tree["env"] = {**env, **(tree.get("env") or {})}
        document.locations |= {("env", name): location for name in env if ("env", name) not in document.locations}
        document.locations.setdefault(("env",), location)


def _compare(document: YamlDocument, key: str, value: Any, source: Location, *, is_of_command: bool) -> None:
    """Report a number of the command that is another one in the job; an option of fsdpctl replaces both."""
    place = document.locate((key,))
    if place.line is None:  # an option that replaces what the command has
        return
    if source.line is None:
        document.tree[key] = value
        document.locations[key,] = source
        return
    text = f"{show(document.tree[key])}, but {source} has {show(value)}"
    if is_of_command:
        document.problems.append(LocatedProblem(place, (key,), f"{text} by its command: keep one of them"))
    else:
        document.notices.append(LocatedProblem(place, (key,), f"{text}: that of the job counts"))
