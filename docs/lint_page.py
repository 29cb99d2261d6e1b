"""docs/lint.md: every rule of `jobs check`, from the table of rules."""

from __future__ import annotations

from collections.abc import Iterator

from docs.tables import FOOT, row
from fsdpctl.lint.rule import Rule
from fsdpctl.lint.table import SECTIONS, rules_of

INTRO = """\
# Rules of `jobs check`

A valid job may still run at half of the speed, or lose hours of work. `jobs check` applies the rules below to a job, on
the profile on which `submit` would start it, and shows the line of each key, why it matters and what to change:

```console
$ fsdpctl jobs check llm300m -p slurm-h100 --nodes 4
$ fsdpctl jobs check mine.yaml --set trainer.precision=fp16
$ fsdpctl jobs check jobs/*.yaml --strict    # exit 1 if there is a finding
$ fsdpctl jobs rules
```

`submit` prints a line for each warning, and one with the ids of all advice. No finding prevents a run: what cannot work
is refused anyway, also a job that cannot fit the memory of its GPUs ([does-not-fit](#does-not-fit)). A *warning* costs
time, memory, a result or a secret in nearly every case; *advice* depends on what you want. No cluster is asked, so
rules use bounds, for the `gpu` of the profile if it names one: they report nothing where only a measurement could
decide. `--json` has the values; `--strict` is for checks before a commit.

To ignore a rule, name it in the job, or in the profile for all jobs on that cluster, and write down why:

```yaml
lint: {ignore: [forced-algorithm]}   # measured: Ring is faster on this switch
```
"""


def render() -> str:
    """Return the page: a list of all rules, then a section for each group of them."""
    groups = {heading: rules_of(module) for heading, module in SECTIONS.items()}
    rules = [rule for group in groups.values() for rule in group]
    lines = [row("rule", "severity", "what it reports"), row(*["---"] * 3)]
    lines += [row(f"[{rule.id}](#{rule.id})", rule.severity, rule.what) for rule in rules]
    parts = [INTRO, "\n".join(lines)]
    for heading, group in groups.items():
        parts.append(f"## {heading}")
        parts += ["\n".join(entry(rule)) for rule in group]
    return "\n\n".join(part.strip() for part in (*parts, FOOT)) + "\n"


def entry(rule: Rule) -> Iterator[str]:
    yield f"### {rule.id}"
    yield ""
    yield f"{rule.severity.capitalize()}: {rule.what} {rule.why}"
    yield ""
    yield f"What to change: {rule.change}"
    yield ""
    yield f"More: {link(rule.source)}"


def link(source: str) -> str:
    """Return a page of the documentation as a link within it; another address as it is."""
    name = source.removeprefix("docs/")
    return f"[{name.removesuffix('.md')}]({name})" if name != source else f"<{source}>"
