"""Leave out what seems to be a secret: variables come from the environment, arguments from an edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fsdpctl.exporters.exportable import Exportable
from fsdpctl.schema.secret_names import is_secret, is_secret_option

PLACEHOLDER = "CHANGE-ME"


def without_secrets(export: Exportable) -> tuple[Exportable, tuple[str, ...]]:
    """Return the job without values of secrets, whose variables `pass_env` then has; and what needs an edit."""
    plan = export.plan
    names = [name for name, value in plan.env.items() if is_secret(name, value)]
    in_setup = {line: name for line in plan.setup if (name := _secret_set_by(line))}
    args, options = _without_values(plan.entry.args)
    hidden = replace(
        plan,
        env={name: value for name, value in plan.env.items() if name not in names},
        setup=tuple(line for line in plan.setup if line not in in_setup),
        pass_env=tuple(dict.fromkeys((*plan.pass_env, *names, *in_setup.values()))),
        entry=replace(plan.entry, args=args),
    )
    notes = tuple(f"{option}: its secret is not written: replace {PLACEHOLDER}" for option in options)
    return replace(export, plan=hidden), notes


def _secret_set_by(line: str) -> str | None:
    """Return the variable that a line of the setup sets, if it seems to be a secret."""
    name, equals, value = line.removeprefix("export ").strip().partition("=")
    return name if equals and name.isidentifier() and is_secret(name, value.strip("'\"")) else None


def _without_values(args: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the arguments with a placeholder for each secret, and the options that have one."""
    kept: list[str] = []
    options: list[str] = []
    before = ""
    for word in args:
        name, equals, value = word.partition("=")
        if equals and name.startswith("-") and is_secret_option(name, value):
            options.append(name)
            kept.append(f"{name}={PLACEHOLDER}")
        elif before.startswith("-") and "=" not in before and word[:1] != "-" and is_secret_option(before, word):
            options.append(before)
            kept.append(PLACEHOLDER)
        else:
            kept.append(word)
        before = word
    return tuple(kept), tuple(options)
