"""Write jobs.md, profiles.md, commands.md, import.md, lint.md and others in docs/ from the code: `make docs`. A test
fails if one is stale.

The description of a key is the docstring under its field, or the comment behind it. The description of an option is its
`--help` text.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs import commands_page, failures_page, import_page, json_page, licences_page, lint_page, man_page, restarts_page
from docs.source import sentences
from docs.tables import FOOT, row
from fsdpctl.backends.slurm.profile_keys import ContainerOption, Mount, SbatchOption
from fsdpctl.contract.codec import encode
from fsdpctl.schema import types as scalars
from fsdpctl.schema.keys import Key, classes_in, walk
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.lint import LintRuleId
from fsdpctl.specs.profile import ClusterProfile

DOCS = Path(__file__).parent

JOBS = """\
# Jobs

A job is one YAML file that describes what is trained, on any cluster. `submit` takes the path of the file or the name
of the job. A name is looked up in `./jobs`, then in `~/.config/fsdpctl/jobs`, then among the jobs that come with
fsdpctl. `fsdpctl jobs ls` lists them all.

```yaml
name: mine
nodes: 2
entrypoint: {script: train.py}
args: [--lr, 3e-4]
time_limit: 12h
restarts: 3
```

`fsdpctl jobs check FILE` lists all problems with their line numbers, and what would cost time, memory or a result
([lint.md](lint.md)). `fsdpctl jobs show NAME` prints a job with all defaults filled in. `--set KEY=VALUE` changes one
key for one run; a dot separates the levels: `--set trainer.optim.lr=1e-4`. A duration is written as `90s`, `30m`,
`1h30m`, `2d` or `1:30:00`.
In place of `entrypoint` and `args` a job may have the `command` of another launcher, such as
`command: torchrun --nproc_per_node 2 train.py`: [own-scripts.md](own-scripts.md#from-a-command-or-a-script).
[own-scripts.md](own-scripts.md) lists the environment variables that your own script gets, and [trainer.md](trainer.md)
explains the keys under `trainer`.

`fsdpctl submit JOB --after RUN` starts the job when that run has succeeded; until then it is QUEUED. Under Slurm its
job gets a dependency on that of RUN, which holds over requeues; a RUN without a Slurm job of its own, such as one in a
hold, is refused until it has succeeded. Elsewhere its supervisor waits, and RUN may be of any backend. If RUN ends in
any other way, also by `stop`, the waiting run becomes CANCELLED, and `resume` starts it all the same. A job whose steps
would take minutes on CPUs is started only after a question, or with `--yes`.
"""

PROFILES = """\
# Cluster profiles

A profile is one YAML file that describes a cluster. `--profile` takes the path of the file or the name of the profile.
A name is looked up in `./cluster_profiles`, then in `~/.config/fsdpctl/cluster_profiles`, then among the profiles that
come with fsdpctl. `fsdpctl profiles ls` lists them all. Start from a copy of
[slurm-h100.yaml](../cluster_profiles/slurm-h100.yaml) or [ssh-h100.yaml](../cluster_profiles/ssh-h100.yaml):
`fsdpctl profiles init NAME --from slurm-h100` writes one to `./cluster_profiles/`. Or let fsdpctl look at the cluster:

```console
$ fsdpctl profiles init ours --look                        # on a login node of Slurm; without Slurm, this machine
$ fsdpctl profiles init ours --hosts me@gpu[01-04],10.0.0.9:2222   # hosts over SSH; or --hostfile FILE, a host a line
```

Under Slurm it asks `scontrol` for partitions, time limits and the GPUs (GRES), CPUs, memory and features of their
nodes, and takes the partition with most GPUs; the others are in comments. Over SSH it reads on each host the GPUs,
the interface that routes to the first host, InfiniBand and RoCE adapters with their rates, NUMA nodes, mounts from
file servers, and the first Python of 3.11 or newer, one with torch before others: that of `fsdpctl` here, then those
on the PATH. Host keys are verified as everywhere; `--trust-hosts` stores new ones. The profile has what the hosts
have in common. What was seen on each host, where one differs, and what could not be seen goes to stderr; a host that
could not be seen is in the profile as a comment. A file that exists is never replaced. `fsdpctl doctor` then checks
what was only read.

Without `--profile` the job's `profile` counts, then the variable FSDPCTL_PROFILE, then the profile that
`fsdpctl profiles default NAME` has stored (`--clear` forgets it), then `local`. The first line of `submit` names the
profile and where it is from. `fsdpctl resume --profile NAME` continues a run under another one, unless only one of the
two has a shared disk.

```yaml
name: two-boxes
backend: ssh
nodes:
  - {id: left, address: 10.0.0.1}
  - {id: right, address: 10.0.0.2}
gpus_per_node: 8
runs_root: /shared/me/runs
venv: /shared/me/venv
```

`fsdpctl profiles check FILE` lists all problems with their line numbers. `fsdpctl profiles show NAME` prints a profile
with all defaults filled in. `fsdpctl submit JOB --profile NAME --dry-run` prints every command that the profile leads
to. A duration is written as `90s`, `30m`, `1h30m`, `2d` or `1:30:00`.

## Environment: containers, conda, modules

`environment` is what the ranks run in, on every backend:

```yaml
environment: {kind: venv, path: /shared/me/venv}           # short: venv: /shared/me/venv
environment: {kind: uv, project: /shared/me/llm}           # after `uv sync`
environment: {kind: conda, name: llm, conda: /opt/miniforge3/bin/conda}
environment: {kind: modules, load: [cuda/13, python/3.12], python: /shared/me/venv/bin/python}
environment: {kind: apptainer, image: /shared/llm.sif, mounts: [/data]}
environment: {kind: pyxis, image: "nvcr.io#nvidia/pytorch:25.10-py3"}   # Slurm
environment: {kind: docker, image: "me/llm:1"}                          # local and SSH
```

Lines of `setup` and `modules` run before it, and outside of a container. A container has the network and the processes
of its node, and `runs_root`; everything else, such as data, is in `mounts`. Outside of it, `python` (3.11 or newer,
without torch) starts it, except on local, where it is the one of fsdpctl. Pull an image that is in a registry before: a
start waits 30 s for it over SSH, and `join_timeout` with pyxis and where nodes wait for each other. An environment that
is missing on a node is reported with the node and a remedy by `fsdpctl doctor`, and in `agent.log` of an attempt; under
Slurm on the first node in `batch.log`.
"""

TYPE_NAMES: list[tuple[Any, str]] = [
    (scalars.Name, "name"),
    (scalars.Text, "text"),
    (scalars.Argument, "text"),
    (scalars.Word, "text"),
    (scalars.Directory, "absolute path"),
    (scalars.Program, "name or absolute path"),
    (scalars.Host, "host"),
    (scalars.Module, "module"),
    (scalars.Gpu, "name of a GPU"),
    (scalars.EnvName, "variable"),
    (scalars.EnvMap, "mapping of variables to text"),
    (scalars.Duration, "duration"),
    (scalars.FailureCause, "cause"),
    (LintRuleId, "rule"),
    (scalars.Count, "whole number, at least 1"),
    (scalars.Port, "port"),
    (SbatchOption, "text"),
    (ContainerOption, "text"),
    (Mount, "text"),
    (str, "text"),
    (int, "whole number"),
    (float, "number"),
    (bool, "true or false"),
]


def render(intro: str, model: type) -> str:
    """Return the page of one model: its own keys, then a section for each mapping in it."""
    sections: dict[type, list[Key]] = {}
    prefixes: dict[type, list[str]] = {}
    for key in walk(model):
        prefix = ".".join(key.path[:-1])
        if prefix not in prefixes.setdefault(key.owner, [prefix]):
            prefixes[key.owner].append(prefix)
        if prefix == prefixes[key.owner][0]:
            keys = sections.setdefault(key.owner, [])
            keys += [key] if key.path[-1] != "kind" else []  # the heading has it
    parts = [
        intro,
        *("\n".join([title(owner, prefixes[owner]), *table(keys)]) for owner, keys in sections.items()),
        FOOT,
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def title(owner: type, prefixes: list[str]) -> str:
    name = ", ".join(f"`{prefix}`" for prefix in prefixes if prefix)
    kind = typing.get_args(typing.get_type_hints(owner).get("kind"))
    kinds = f", kind {type_name(typing.Literal[kind])}" if kind else ""
    heading = f"## {name}{kinds}" if name else "## Keys"
    return f"{heading}\n\n{textwrap.fill(inspect.cleandoc(owner.__doc__ or ''), 120)}\n"


def table(keys: list[Key]) -> Iterator[str]:
    if not keys:
        return
    yield "| key | type | default | description |"
    yield "| --- | --- | --- | --- |"
    for key in keys:
        yield row(f"`{key.path[-1]}`", type_name(key.hint), default_text(key), sentence(key))


def type_name(hint: Any) -> str:
    """Return the name of a key's type, as error messages write it."""
    for known, name in TYPE_NAMES:
        if hint == known:
            return name
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return type_name(next(arg for arg in args if arg is not type(None)))
    if origin is typing.Literal:
        return " or ".join(", ".join(f"`{arg}`" for arg in args).rsplit(", ", 1))
    if origin is tuple:
        return f"list of {type_name(args[0]).replace('mapping', 'mappings')}"
    if origin is dict:
        return "mapping of names to text"
    if origin is typing.Annotated:
        low, high = bounds(hint)
        inner = type_name(args[0])
        return f"{inner}, {low} to {high}" if low is not None else inner
    assert list(classes_in(hint)), hint
    return "mapping"


def bounds(hint: Any) -> tuple[Any, Any]:
    limits = [limit for info in hint.__metadata__ if isinstance(info, FieldInfo) for limit in info.metadata]
    low = [limit.ge for limit in limits if isinstance(limit, Ge)]
    high = [limit.le for limit in limits if isinstance(limit, Le)]
    return (low[0], high[0]) if low and high else (None, None)


def default_text(key: Key) -> str:
    """Return the default of a key as it is written in YAML."""
    given = default_of(key)
    if given is dataclasses.MISSING:
        return "required"
    if given is None:
        return "unset"
    if isinstance(given, BaseModel) or dataclasses.is_dataclass(given):
        return ""
    if scalars.Duration in (key.hint, *typing.get_args(key.hint)):
        return f"`{scalars.format_duration(given)}`"
    if isinstance(given, str):
        return f"`{given}`"
    return f"`{yaml.safe_dump(encode(given), default_flow_style=True, width=float('inf')).splitlines()[0]}`"


def default_of(key: Key) -> Any:
    name = key.path[-1]
    if issubclass(key.owner, BaseModel):
        field = key.owner.model_fields[name]
        return dataclasses.MISSING if field.is_required() else field.get_default(call_default_factory=True)
    (plain,) = [field for field in dataclasses.fields(typing.cast(Any, key.owner)) if field.name == name]
    return plain.default if plain.default_factory is dataclasses.MISSING else plain.default_factory()


def sentence(key: Key) -> str:
    """Return the description of a key: that of its field, else the first sentence of the mapping's docstring."""
    text = sentences(key.owner)[key.path[-1]]
    if not text and key.has_keys:
        text = " ".join(inspect.cleandoc(next(classes_in(key.hint)).__doc__ or "").split()).partition(". ")[0]
    first = text.partition(" ")[0].rstrip(":,;")
    if re.fullmatch("[a-z-]+", first) and first not in typing.get_args(key.hint):
        text = text[0].upper() + text[1:]
    return text if not text or text.endswith(".") else f"{text}."


def main() -> None:
    (DOCS / "jobs.md").write_text(render(JOBS, JobSpec), encoding="utf-8")
    (DOCS / "profiles.md").write_text(render(PROFILES, ClusterProfile), encoding="utf-8")
    (DOCS / "commands.md").write_text(commands_page.render(), encoding="utf-8")
    (DOCS / "json.md").write_text(json_page.render(), encoding="utf-8")
    (DOCS / "restarts.md").write_text(restarts_page.render(), encoding="utf-8")
    (DOCS / "lint.md").write_text(lint_page.render(), encoding="utf-8")
    (DOCS / "import.md").write_text(import_page.render(), encoding="utf-8")
    (DOCS / "failures.md").write_text(failures_page.render(), encoding="utf-8")
    (DOCS / "licences.md").write_text(licences_page.render(), encoding="utf-8")
    (DOCS.parent / "share/man/man1/fsdpctl.1").write_text(man_page.render(), encoding="utf-8")


if __name__ == "__main__":
    main()
