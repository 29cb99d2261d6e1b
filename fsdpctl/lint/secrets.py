"""The rule about secrets in jobs and profiles. No message has the value of one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.subject import Subject
from fsdpctl.schema.secret_names import is_secret, is_secret_option
from fsdpctl.specs.lint import RuleId


def find_secrets(subject: Subject) -> Iterator[Found]:
    """Yield what seems to be a secret in variables, arguments and setup lines, without its value."""
    for variable in subject.variables.values():
        if is_secret(variable.name, variable.value):
            yield Found(variable.key, f"{variable.name} seems to be a secret; pass_env takes it from the shell")
    for number, (option, value) in enumerate(pairwise(("", *subject.job.args))):
        name, equals, joined = value.partition("=")
        if equals and name.startswith("-") and is_secret_option(name, joined):
            yield Found(f"args[{number}]", f"{name} seems to pass a secret, which `ps` shows; pass_env hides it")
        elif option.startswith("-") and is_secret_option(option, value):
            yield Found(f"args[{number}]", f"{option} seems to pass a secret, which `ps` shows; pass_env hides it")
    for number, line in enumerate(subject.profile.setup):
        name, equals, value = line.removeprefix("export ").strip().partition("=")
        if equals and name.isidentifier() and is_secret(name, value.strip("'\"")):
            yield Found(f"setup[{number}]", f"{name} seems to be a secret; pass_env takes it from the shell")


@rule(
    RuleId.SECRET_IN_ENV,
    "warning",
    what="A secret is written in a job or a profile.",
    why="Jobs and profiles are shared and committed, and `env` is stored in the run directory and printed by"
    " `--dry-run`.",
    change="Remove it from the file, name it under `pass_env` of the profile, and export it in the shell that submits."
    " A secret that was committed must be replaced.",
    source="docs/profiles.md",
)
def secret_in_env(subject: Subject) -> Iterator[Found]:
    yield from find_secrets(subject)
