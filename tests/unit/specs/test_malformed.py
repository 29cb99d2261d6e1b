"""Every way to write a wrong profile or job: a message of the documented form, exit code 2, nothing created."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.schema import yaml_tree

Cli = Callable[..., Any]

# The content of the file, the line of the problem, and a part of the message.
ANY_FILE: dict[str, tuple[bytes, int, str]] = {
    "unknown key": (b"name: x\nnode: 3\n", 2, "node: unknown key; did you mean nodes? known keys: name, "),
    "unknown key, nothing near": (b"name: x\nzzz: 3\n", 2, "zzz: unknown key; known keys: name, "),
    "missing key": (b"env: {}\n", 1, "name: missing; this key is required"),
    "null for text": (b"name:\n", 1, "name: must be text, got nothing"),
    "number for text": (b"name: 5\n", 1, 'name: must be text, got 5; write "5" in quotes to make it text'),
    "list for text": (b"name: [x]\n", 1, "name: must be text, got a list"),
    "mapping for text": (b"name: {x: y}\n", 1, "name: must be text, got a mapping"),
    "list for mapping": (b"name: x\nenv: [A]\n", 2, "env: must be a mapping of keys to values, got a list"),
    "repeated key": (b"name: x\n# a\nname: y\n", 3, "name: given twice, first on line 1; keep one of them"),
    "repeated inner key": (b"name: x\nenv:\n  A: x\n  A: y\n", 4, "env.A: given twice, first on line 3"),
    "tab": (b"name: x\nenv:\n\tA: x\n", 3, "indented with a tab; YAML is indented with spaces"),
    "anchor": (b"name: &a x\n", 1, "anchors (&) and aliases (*) are not allowed"),
    "alias": (b"name: *a\n", 1, "anchors (&) and aliases (*) are not allowed"),
    "python tag": (b"name: !!python/object/apply:os.system ['touch canary']\n", 1, "the tag tag:yaml.org,2002:python"),
    "own tag": (b"name: !x y\n", 1, "the tag !x is not allowed"),
    "core tag": (b"name: !!str 5\n", 1, "the tag tag:yaml.org,2002:str is not allowed"),
    "merge key": (b"name: x\n<<: {a: b}\n", 2, "<<: unknown key"),
    "byte order mark": (b"\xef\xbb\xbfname: x\n", 1, "starts with a byte order mark"),
    "late byte order mark": (b"name: x\n\xef\xbb\xbf\n", 2, "the character U+FEFF is not allowed"),
    "latin-1": (b"name: x\n# caf\xe9\n", 2, "byte 0xE9 is not UTF-8; save the file as UTF-8"),
    "utf-16": ("name: x\n".encode("utf-16"), 1, "byte 0xFF is not UTF-8"),
    "encoded surrogate": (b"name: x\n# \xed\xa0\x80\n", 2, "byte 0xED is not UTF-8"),
    "NUL": (b"name: x\n# \0\n", 2, "the character U+0000 is not allowed"),
    "escape": (b"name: x\n# \x1b[31m\n", 2, "the character U+001B is not allowed"),
    "lone carriage return": (b"name: x\n# \rnodes: 9\n", 2, "the character U+000D is not allowed"),
    "line separator": ("name: x\n# \u2028nodes: 9\n".encode(), 2, "the character U+2028 is not allowed"),
    "empty file": (b"", 1, "empty; must be a mapping of keys to values"),
    "only a comment": (b"# nothing\n", 1, "empty; must be a mapping of keys to values"),
    "text": (b"hello\n", 1, 'must be a mapping of keys to values, got "hello"'),
    "list": (b"- a\n", 1, "must be a mapping of keys to values, got a list"),
    "two documents": (b"name: x\n---\nname: y\n", 2, "a second document starts here"),
    "list as key": (b"name: x\n? [a]\n: b\n", 2, "a key must be plain text, not a mapping or list"),
    "unclosed list": (b"name: x\nenv: [a\n", 3, "not valid YAML: "),
    "unclosed quote": (b"name: x\nenv: 'a\n", 3, "not valid YAML: "),
    "two colons": (b"name: x: y\n", 1, "not valid YAML: mapping values are not allowed"),
    "long number": (b"name: " + b"9" * 5000, 1, "the number 9999999999999999999999999999999999999999... is too long"),
    "huge number": (b"name: 1e999", 1, "the number 1e999 is too large"),
    "name with a blank": (b"name: a b\n", 1, "name: a name has 1 to 64 letters"),
    "name with a quote": (b'name: "a\'b"\n', 1, "name: a name has 1 to 64 letters"),
    "name with a command": (b"name: $(touch canary)\n", 1, 'got "$(touch canary)"'),
    "name with a newline": (b'name: "a\\nb"\n', 1, r'got "a\nb"'),
    "name with a dash": (b"name: -rf\n", 1, 'got "-rf"'),
    "name of 300 characters": (b"name: " + b"x" * 300, 1, 'got "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."'),
    "name not in ASCII": ("name: n\u00e4m\n".encode(), 1, "name: a name has 1 to 64 letters"),
    "reversed name": ("name: a\u202eb\n".encode(), 1, "name: a name has 1 to 64 letters"),
    "dots as name": (b"name: ..\n", 1, "name: a name has 1 to 64 letters"),
    "key with a newline": (b'name: x\n"a\\nb": 1\n', 2, r"a\nb: unknown key"),
    "nothing in env": (b"name: x\nenv: {A: }\n", 2, 'env.A: must be text, got nothing; write "" in quotes'),
    "list in env": (b"name: x\nenv: {A: [8]}\n", 2, "env.A: must be text, got a list"),
    "name in env": (b"name: x\nenv: {A B: c}\n", 2, "env.A B: an environment variable has letters"),
    "our name in env": (b"name: x\nenv: {MASTER_PORT: '1'}\n", 2, "env.MASTER_PORT: this variable is set by fsdpctl"),
    "safe path in env": (b"name: x\nenv: {PYTHONSAFEPATH: ''}\n", 2, "env.PYTHONSAFEPATH: this variable is set by"),
    "NUL in env": (b'name: x\nenv: {A: "a\\0b"}\n', 2, "env.A: an environment value cannot contain a NUL"),
}  # fmt: skip

_TRAINER = b"trainer:\n  steps: 5\n  model: {}\n"
JOBS: dict[str, tuple[bytes, int, str]] = {
    "no nodes": (b"name: x\nnodes: 0\n", 2, "nodes: must be at least 1, got 0"),
    "many ranks": (b"name: x\nprocs_per_node: 5000\n", 2, "procs_per_node: must be at most 1024, got 5000"),
    "many nodes": (b"name: x\nnodes: 5000\n", 2, "nodes: must be at most 1024, got 5000"),
    "half nodes": (b"name: x\nnodes: 1.5\n", 2, "nodes: must be a whole number, got 1.5"),
    "yes nodes": (b"name: x\nnodes: yes\n", 2, 'nodes: must be a whole number, got "yes"'),
    "true nodes": (b"name: x\nnodes: true\n", 2, "nodes: must be a whole number, got true"),
    "octal nodes": (b"name: x\nnodes: 017\n", 2, 'nodes: must be a whole number, got "017"'),
    "hex nodes": (b"name: x\nnodes: 0x10\n", 2, 'nodes: must be a whole number, got "0x10"'),
    "bare time": (b"name: x\ntime_limit: 90\n", 2, "time_limit: a duration is written like 90s"),
    "no time": (b"name: x\ntime_limit: 0s\n", 2, "time_limit: a duration must be at least one second"),
    "odd time": (b"name: x\ntime_limit: 1:99:00\n", 2, "time_limit: a duration is written like 90s"),
    "text for list": (b"name: x\nargs: a\n", 2, 'args: must be a list, got "a"'),
    "unknown cause": (b"name: x\nrestart_on: [hang, oom]\n", 2, "restart_on[1]: must be one of signal, exit_code, "),
    "cause of no failure": (b"name: x\nrestart_on: [finished]\n", 2, "restart_on[0]: must be one of signal, "),
    "no pattern": (b"name: x\nprogress_regex: 'a('\n", 2, "progress_regex: not a regular expression of Python: "),
    "pattern without a step": (b"name: x\nprogress_regex: loss\n", 2, "progress_regex: it needs a group named step"),
    "mapping in list": (b"name: x\nargs: [a, {b: 5}]\n", 2, "args[1]: must be text, got a mapping"),
    "newline in list": (b'name: x\nargs: ["a\\nb"]\n', 2, "args[0]: the control character U+000A is not allowed"),
    "module": (b"name: x\nentrypoint: {module: a b}\n", 2, "entrypoint.module: a module is written as in an import"),
    "script": (b"name: x\nentrypoint: {script: -c}\n", 2, "entrypoint.script: must not be empty, start with '-'"),
    "two entrypoints": (b"name: x\nentrypoint:\n  module: a\n  script: b\n", 3, "entrypoint: give either `module`"),
    "no trainer": (b"\nname: x\n", 2, "the bundled trainer needs a `trainer` section"),
    "short time": (b"name: x\nentrypoint: {script: a.py}\ntime_limit: 30s\n", 3, "time_limit: 30s must exceed grace"),
    "no units": (b"name: x\n" + _TRAINER + b"  mesh:\n    units:\n      names: []\n", 7, "names must hold at least"),
    "no source": (b"name: x\n" + _TRAINER + b"  data:\n    source: ''\n", 6, "data: source must not be empty; builtin"),
    "trainer text": (b"name: x\ntrainer: yes\n", 2, 'trainer: must be a mapping of keys to values, got "yes"'),
    "trainer key": (b"name: x\n" + _TRAINER + b"  stps: 5\n", 5, "trainer.stps: unknown key; did you mean steps?"),
    "model missing": (b"name: x\n" + _TRAINER, 4, "trainer.model.d_model: missing; this key is required"),
    "literal": (b"name: x\n" + _TRAINER + b"  mesh: {strategy: hybrid}\n", 5, "did you mean HYBRID_SHARD?"),
    "precision": (b"name: x\n" + _TRAINER + b"  precision: bf61\n", 5, 'got "bf61"; did you mean bf16?'),
    "learning rate": (b"name: x\n" + _TRAINER + b"  optim: {lr: fast}\n", 5, "trainer.optim.lr: must be a number"),
}  # fmt: skip

_NODES = b"name: x\nbackend: ssh\nnodes:\n"
PROFILES: dict[str, tuple[bytes, int, str]] = {
    "backend": (b"name: x\nbackend: slrum\n", 2, 'must be one of local, ssh, slurm, got "slrum"; did you mean slurm?'),
    "backend kind": (b"name: x\nbackend: {user: a}\n", 2, "backend: the key kind is missing"),
    "backend number": (b"name: x\nbackend: 3\n", 2, "backend: must be a mapping of keys to values, got 3"),
    "backend key": (b"name: x\nbackend:\n  kind: slurm\n  partitin: a\n", 4, "unknown key; did you mean partition?"),
    "key of another backend": (b"name: x\nbackend: {kind: ssh, qos: a}\n", 2, "there is backend.qos of kind slurm;"),
    "key of slurm at the top": (b"name: x\npartition: a\n", 2, "; there is backend.partition of kind slurm; known"),
    "key of nodes at the top": (b"name: x\nport: 22\n", 2, "ports? there is nodes.port and spares.port; known"),
    "sbatch option": (b"name: x\nbackend: {kind: slurm, extra: [-x]}\n", 2, "backend.extra[0]: an extra sbatch option"),
    "sbatch newline": (b'name: x\nbackend: {kind: slurm, qos: "a\\nb"}\n', 2, "the control character U+000A"),
    "ssh without nodes": (b"name: x\nbackend: ssh\n", 2, "backend: ssh needs the machines of the cluster, under"),
    "relative root": (_NODES + b"- {id: a, address: b}\nruns_root: runs\n", 5, "on all hosts, like /shared/runs"),
    "relative venv": (b"name: x\nvenv: .venv\n", 2, "venv: must be an absolute path, like /shared/me: it is used on"),
    "home as workdir": (b"name: x\nworkdir: ~/work\n", 2, "workdir: must be an absolute path, like"),
    "relative python": (b"name: x\npython: bin/python\n", 2, "python: must be an absolute path, like"),
    "port too high": (_NODES + b"- {id: a, address: b, port: 65536}\n", 4, "nodes[0].port: must be at most 65535"),
    "port zero": (b"name: x\nports: {first: 0}\n", 2, "ports.first: must be at least 1, got 0"),
    "ports reversed": (b"name: x\nports:\n  first: 5000\n  last: 4000\n", 3, "ports.first: 5000 must not exceed last"),
    "node key": (_NODES + b"- id: a\n  addres: b\n", 5, "nodes[0].addres: unknown key; did you mean address?"),
    "node without address": (_NODES + b"- id: a\n", 4, "nodes[0].address: missing; this key is required"),
    "nodes as mapping": (_NODES + b"  a: {}\n", 3, "nodes: must be a list, got a mapping"),
    "node as text": (_NODES + b"- a\n", 4, 'nodes[0]: must be a mapping of keys to values, got "a"'),
    "address with a blank": (_NODES + b"- {id: a, address: b c}\n", 4, "nodes[0].address: a host is a name or an IP"),
    "address as option": (_NODES + b"- {id: a, address: -oProxyCommand=x}\n", 4, "nodes[0].address: a host is a name"),
    "same id": (_NODES + b"- {id: a, address: b}\n- {id: a, address: c}\n", 5, "nodes[1].id: nodes[0] has the id a"),
    "same id, in two lines": (_NODES + b"- {id: a, address: b}\n- address: c\n  id: a\n", 6, "nodes[1].id: nodes[0]"),
    "same port": (_NODES + b"- {id: a, address: b}\nspares:\n- {id: c, address: b}\n", 6, "spares[0].address: nodes"),
    "network key": (b"name: x\nnetwork:\n  nccl: {FOO: a}\n", 3, "network.nccl: takes NCCL_* variables, got FOO"),
    "yes": (b"name: x\nallow_loopback: yes\n", 2, 'allow_loopback: must be true or false, got "yes"'),
    "secret name": (b"name: x\npass_env: [A=B]\n", 2, "pass_env[0]: an environment variable has letters"),
}  # fmt: skip

CORPUS = [
    pytest.param(command, *case, id=f"{command}: {name}")
    for command, corpus in (("jobs", ANY_FILE), ("profiles", ANY_FILE), ("jobs", JOBS), ("profiles", PROFILES))
    for name, case in corpus.items()
]


@pytest.mark.parametrize(("command", "content", "line", "expected"), CORPUS)
def test_a_malformed_file_is_explained(
    command: str, content: bytes, line: int, expected: str, cli: Cli, home: Path
) -> None:
    file = Path("bad.yaml")
    file.write_bytes(content)
    result = cli(command, "check", "bad.yaml")
    assert result.code == 2
    assert result.out == ""
    assert any(text.startswith(f"bad.yaml:{line}: ") and expected in text for text in result.err.splitlines()), (
        result.err
    )
    assert_clean(result.err)
    assert os.listdir(home) == []
    assert os.listdir() == ["bad.yaml"]


def assert_clean(err: str) -> None:
    """Check the form of a message: one subject line, then one line per problem; no terms of Python or pydantic."""
    subject, *problems = err.splitlines()
    assert re.fullmatch(r"error: (job|profile) \S+ has \d+ problems?", subject)
    assert all(re.match(r"\S+:\d+: \S", line) and len(line) < 400 for line in problems)
    for word in ("Traceback", "Input should", "pydantic.dev", "valid string", "tuple", "dict", "NoneType"):
        assert word not in err


@pytest.mark.parametrize("command", ["jobs", "profiles"])
def test_all_problems_are_reported_at_once_in_the_order_of_the_file(command: str, cli: Cli) -> None:
    Path("bad.yaml").write_text("name: a b\nname: -x\nenv: {A: [1]}\nenvv: x\nprocs_per_node: 0\n")
    lines = cli(command, "check", "bad.yaml").err.splitlines()
    assert [line.split(": ")[:2] for line in lines[1:]] == [
        ["bad.yaml:2", "name"], ["bad.yaml:2", "name"], ["bad.yaml:3", "env.A"],
        ["bad.yaml:4", "envv"], ["bad.yaml:5", "procs_per_node"],
    ]  # fmt: skip


def test_many_problems_are_cut(cli: Cli) -> None:
    Path("bad.yaml").write_text("name: x\n" + "".join(f"key{number}: 1\n" for number in range(2000)))
    lines = cli("profiles", "check", "bad.yaml").err.splitlines()
    assert lines[0].endswith("has 2000 problems")
    assert lines[-1] == "... and 1950 more"


BOMBS = {
    "aliases": "a: &a [x, x]\n" + "".join(f"k{n}: &a{n} [*a, *a, *a, *a, *a, *a, *a, *a]\n" for n in range(50)),
    "3000 lists": "nodes: " + "[" * 3000,
    "3000 closed lists": "nodes: " + "[" * 3000 + "]" * 3000,
    "3000 mappings": "nodes: " + "{a: " * 3000,
    "deep block": "\n".join(" " * depth + "a:" for depth in range(1000)),
    "deep dashes": "nodes:\n" + "- " * 400_000,
    "digits": "nodes: " + "9" * 900_000,
    "fraction": "nodes: " + "1" * 400_000 + "." + "1" * 400_000,
    "blanks": " " * 999_999,
    "too large": "#" * 1_000_001,
}


@pytest.mark.slow
@pytest.mark.parametrize("content", BOMBS.values(), ids=BOMBS)
def test_a_yaml_bomb_is_refused_at_once(content: str, cli: Cli) -> None:
    Path("bomb.yaml").write_text(content)
    cli("jobs", "check", "llm-tiny")  # exclude the time of imports
    bombs, jobs = [], []
    for _ in range(3):  # other processes may slow this one down
        for name, times in (("bomb.yaml", bombs), ("llm-tiny", jobs)):
            start = time.process_time()
            result = cli("jobs", "check", name)
            times.append(time.process_time() - start)
            assert result.code == (2 if name == "bomb.yaml" else 0)
            assert "Traceback" not in result.err
    assert min(bombs) < 8 * min(jobs), "0.1 s on a machine that is idle"


@pytest.mark.slow
@pytest.mark.parametrize("content", [*BOMBS.values(), 'name: "\\ud800"\n', "a:\n  - b\n c"])
def test_the_pure_python_parser_refuses_the_same(content: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_tree, "_Loader", yaml_tree.yaml.SafeLoader)
    Path("bomb.yaml").write_text(content)
    result = cli("jobs", "check", "bomb.yaml")
    assert result.code == 2
    assert "Traceback" not in result.err


@pytest.mark.parametrize("command", ["jobs", "profiles"])
def test_special_and_missing_files_are_refused(command: str, cli: Cli) -> None:
    Path("folder.yaml").mkdir()
    os.mkfifo("pipe.yaml")
    for word, expected in {
        "missing.yaml": "missing.yaml: cannot read this {}: No such file or directory",
        "folder.yaml": "folder.yaml: not a file; a {} is one text file",
        "pipe.yaml": "pipe.yaml: not a file; a {} is one text file",
        "/dev/zero": "/dev/zero: not a file; a {} is one text file",
        "./" + "x" * 300 + ".yaml": "cannot read this {}: File name too long",
    }.items():
        result = cli(command, "check", word)
        assert result.code == 2
        assert expected.format(command.removesuffix("s")) in result.err


def test_windows_line_ends_are_accepted(cli: Cli) -> None:
    Path("job.yaml").write_bytes(b"name: x\r\nentrypoint:\r\n  script: a.py\r\nnodes: 2\r\n")
    assert cli("jobs", "check", "job.yaml")[:2] == (0, "job.yaml: ok, 2 nodes, a.py\n")


def test_the_bundled_trainer_takes_no_pattern_for_its_steps(cli: Cli) -> None:
    result = cli("jobs", "check", "llm-tiny", "--set", "progress_regex=(?P<step>.)")
    assert result.code == 2
    assert "progress_regex: the bundled trainer takes none" in result.err
