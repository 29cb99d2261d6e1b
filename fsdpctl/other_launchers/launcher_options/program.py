"""The program of a launch command, and its arguments."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.shell.commands import Launch
from fsdpctl.other_launchers.shell.options import Parsed
from fsdpctl.other_launchers.shell.statements import plain
from fsdpctl.other_launchers.shell.variables import is_resolved, unknown_in
from fsdpctl.schema.problems import Location, shorten
from fsdpctl.schema.secret_names import is_secret_option


def carry_program(draft: Draft, launch: Launch, parsed: Parsed, location: Location) -> None:
    """Set the entrypoint and its arguments from what follows the options of a launcher."""
    if "no-python" in parsed:
        draft.problem(location, ("--no-python",), "ranks of a run are Python programs")
    words: Sequence[str] = parsed.rest
    if (module := parsed.get("module")) is not None:  # --module=NAME
        words = (module, *words)
    set_entrypoint(draft, launch, words, location, is_module="module" in parsed)


def set_entrypoint(draft: Draft, launch: Launch, words: Sequence[str], location: Location, *, is_module: bool) -> None:
    """Set script or module, found from the folder where the command was, and the arguments."""
    if not words:
        text = "starts no script: its options are not followed by one"
        draft.problem(location, (str(launch.launcher),), text)
        return
    program, *args = words
    if not is_resolved(program):
        text = f"{unknown_in(program)} is not known from the text: write the script"
        draft.note(location, "entrypoint", text, must_change=True)
    elif program.startswith("/"):
        text = "scripts are copied with the project: write it relative to the directory where you submit"
        draft.note(location, "entrypoint.script", text, must_change=True)
    elif (folder := launch.folder) not in ("", "."):
        draft.note(location, "cd", f"ranks start in the directory of the project, not in {shorten(folder)}")
        if is_module or folder.startswith("../") or folder == "..":
            text = f"it was started in {shorten(folder)}: write it relative to the directory where you submit"
            draft.note(location, "entrypoint", text, must_change=True)
        else:
            program = posixpath.normpath(posixpath.join(folder, program))
    draft.set(f"job.entrypoint.{'module' if is_module else 'script'}", plain(program), location)
    _set_args(draft, args, location)


def _set_args(draft: Draft, args: Sequence[str], location: Location) -> None:
    kept = _without_secrets(draft, args, location)
    for place, word in enumerate(kept):
        if not is_resolved(word):
            text = f"no shell fills in {shorten(unknown_in(word))}: write the value"
            draft.note(location, f"args[{place}]", text, must_change=True)
    if kept:
        draft.set("job.args", [plain(word) for word in kept], location)


def _without_secrets(draft: Draft, args: Sequence[str], location: Location) -> list[str]:
    kept: list[str] = []
    skips = False
    for place, word in enumerate(args):
        flag, equals, value = word.partition("=")
        following = args[place + 1] if place + 1 < len(args) else ""
        if skips:
            skips = False
        elif flag.startswith("-") and _is_secret(flag, value if equals else following):
            skips = not equals
            text = "a secret is not written into a job: let the script read a variable of `pass_env`"
            draft.note(location, flag, text, must_change=True)
        else:
            kept.append(word)
    return kept


def _is_secret(flag: str, value: str) -> bool:
    return not value.startswith("-") and is_secret_option(flag, plain(value))
