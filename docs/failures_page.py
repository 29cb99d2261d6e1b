"""docs/failures.md: every failure that `fsdpctl explain` knows, from its rules; searched by the text of an error."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docs.tables import FOOT
from fsdpctl.explain.rule import Rule
from fsdpctl.explain.rulebook import rulebook

INTRO = """\
# Failures by their message

Search this page for the text of your error. `fsdpctl explain --log FILE` does it for whole logs, of any program: it
finds the rank that failed first among many, and prints what the failure means and what to change, the smallest change
first. Give all files of a job at once, one per rank or node, or one file in which the ranks are mixed, as torchrun,
srun and mpirun write it. Of long files the end is read.

An error that fits no other category is `runtime_error` or `exception` by its class, whichever failure it is.
`configuration` is a run that never started because what its user wrote was refused: arguments, a configuration file, an
override, an option of a launcher, or a line that sets up the environment. A check of the script's own is `exception` or
`assertion`.
The rank of a line is that of its prefix, or of the file's name, as in `rank-3.log`.
A failure that follows from another one (marked "follows from another rank") is only shown as the first if nothing else
is found.
"""
_FIELD = re.compile(r"{(\w+)}")
_OPTIONAL = re.compile(r"\[[^\[\]]*\]")


def render() -> str:
    """Return the page: a section for each file of rules, in their order."""
    parts = [INTRO]
    for heading, rules in rulebook().sections:
        parts.append(f"## {heading}")
        parts += ["\n".join(entry(rule)) for rule in rules]
    return "\n\n".join(part.strip() for part in (*parts, FOOT)) + "\n"


def entry(rule: Rule) -> Iterator[str]:
    yield f"### {rule.id}"
    yield ""
    if rule.shows:
        yield "```text"
        yield from rule.shows
        yield "```"
        yield ""
    yield f"{sentence(rule)} {traits(rule)}"
    yield ""
    yield from (f"{number}. {capitalize(text)}" for number, text in enumerate(rule.remedy, 1))
    if rule.docs:
        yield ""
        yield f"See [{rule.docs.partition('#')[0].removesuffix('.md')}]({rule.docs})."


def sentence(rule: Rule) -> str:
    """Return the sentence without its optional parts."""
    return capitalize(_OPTIONAL.sub("", rule.sentence))


def capitalize(text: str) -> str:
    """Return a text with its fields in capitals: they are filled from the log."""
    return _FIELD.sub(lambda field: field[1].upper(), text)


def traits(rule: Rule) -> str:
    follows = ", follows from another rank" if rule.role == "cascade" else ""
    retry = "another attempt can help" if rule.retry else "another attempt fails in the same way"
    return f"Category `{rule.category}`, {rule.domain}{follows}; {retry}."
