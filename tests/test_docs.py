"""The papers say what is: their links, commands, samples and tables are held against the code."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from docs import generate
from fsdpctl import Client, Run, errors
from fsdpctl.cli.app import build_app
from fsdpctl.commands.torchrun import node_env
from fsdpctl.contract import AbortReason, CliExit, Env, NodeExit, State, StopReason
from fsdpctl.contract.paths import AttemptPaths, NodePaths, RunPaths
from fsdpctl.contract.plan import NodeContext
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.schema.keys import walk
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import load_job, load_profile, parse_job, parse_profile
from fsdpctl.specs.profile import ClusterProfile
from tests.backends.harness import fsdpctl
from tests.services import require

ROOT = Path(__file__).parents[1]
PAPERS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("docs/*.md"))]
OPTIONS = Path(__file__).with_name("cli_options.txt")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(paper: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", paper.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def first_cells(paper: str) -> list[str]:
    """The first cell of each row of its tables."""
    return [line.split(" | ")[0].removeprefix("| ") for line in read(paper).splitlines() if line.startswith("| ")]


# --- links -----------------------------------------------------------------------------------------------------------


def slugs(paper: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", paper.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda path: path.name)
def test_links_lead_somewhere(paper: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", paper.read_text(encoding="utf-8")):
        page = paper.parent / target if target else paper
        assert page.exists(), f"{paper.name} links to {target}"
        assert not anchor or anchor in slugs(page), f"{paper.name} links to {target}#{anchor}"


def test_every_page_can_be_reached() -> None:
    linked = {target for paper in PAPERS for target in re.findall(r"\]\((?:docs/)?([\w-]+\.md)", paper.read_text())}
    islands = {paper.name for paper in PAPERS} - linked - {"README.md"}
    assert not islands


def test_files_that_are_named_exist() -> None:
    code = [path for folder in ("fsdpctl", "train", "examples") for path in ROOT.glob(f"{folder}/**/*.py")]
    named = {(path, name) for path in code for name in re.findall(r"docs/[\w-]+\.md", path.read_text(errors="replace"))}
    in_papers = r"`((?:docs|tests|fsdpctl|train|jobs|examples|cluster_profiles|bench)/[\w./-]+)`"
    named |= {(paper, name) for paper in PAPERS for name in re.findall(in_papers, paper.read_text(encoding="utf-8"))}
    assert len(named) > 20
    missing = {f"{path.relative_to(ROOT)}: {name}" for path, name in named if not (ROOT / name).exists()}
    assert not {line for line in missing if "NAME" not in line}


# --- commands --------------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, list[str]]]:
    """In console blocks behind a prompt, in indented blocks bare; `status | stop` are two of them."""
    for paper in PAPERS:
        for line in re.findall(r"^(?:\$ |    )fsdpctl (.*)$", paper.read_text(encoding="utf-8"), re.MULTILINE):
            yield from ((paper.name, shlex.split(part, comments=True)) for part in line.split(" | "))


def test_there_are_commands_to_test() -> None:
    assert len([words for paper, words in commands() if paper == "README.md"]) > 10


@pytest.mark.parametrize(("paper", "words"), list(commands()), ids=lambda value: str(value)[:60])
def test_commands_are_understood(paper: str, words: list[str], tmp_path: Path) -> None:
    parse(words)
    if "--dry-run" in words or words[:2] in (["jobs", "ls"], ["profiles", "ls"], ["ls"]):
        fsdpctl(*words, cwd=tmp_path)
        assert not (Path(os.environ["FSDPCTL_HOME"])).exists(), "and create nothing"


def parse(words: list[str]) -> None:
    """Let every option and argument be parsed and checked, without running the command."""
    command: Any = typer.main.get_command(build_app())
    context = command.make_context("fsdpctl", list(words))
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


def test_the_parser_of_these_tests_refuses() -> None:
    for words in (
        ["submit", "x", "--nodse", "2"],
        ["submit", "x", "--nodes", "two"],
        ["jobs", "lss"],
        ["status", "a", "b"],
    ):
        with pytest.raises(Exception, match=r"No such option|valid integer|No such command|unexpected extra"):
            parse(words)


def test_the_error_sample_is_what_one_sees(tmp_path: Path) -> None:
    text = read("jobs/llm-tiny.yaml")
    assert "heads: 4" in text and "eval: {sequences" in text
    (tmp_path / "my.yaml").write_text(
        text.replace("heads: 4", 'heads: "4"').replace("eval: {sequences", "eval: {seqences")
    )
    (sample,) = [
        block for block in blocks(ROOT / "README.md", "console") if block.startswith("$ fsdpctl submit my.yaml")
    ]
    assert fsdpctl("submit", "my.yaml", cwd=tmp_path, expect=2).stderr == sample.partition("\n")[2]


def cli_options() -> Iterator[str]:
    """Every argument and option of every command, one a line."""

    def of(command: Any, name: str) -> Iterator[str]:
        for param in command.params:
            words = sorted(param.opts, key=len, reverse=True) if param.opts[0].startswith("-") else [param.name.upper()]
            yield f"{name} {' '.join(words)}"
        for inner, below in sorted(getattr(command, "commands", {}).items()):
            yield from of(below, f"{name} {inner}")

    yield from of(typer.main.get_command(build_app()), "fsdpctl")


def test_no_option_comes_by_accident() -> None:
    """An option is a promise. Added on purpose, it is also added to cli_options.txt, and the changelog says so."""
    assert list(cli_options()) == OPTIONS.read_text(encoding="utf-8").splitlines()


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "intro", "model"),
    [("jobs.md", generate.JOBS, JobSpec), ("profiles.md", generate.PROFILES, ClusterProfile)],
)
def test_generated_pages_are_fresh(name: str, intro: str, model: type) -> None:
    assert read(f"docs/{name}") == generate.render(intro, model), "make docs"


def test_every_key_has_its_sentence() -> None:
    keys = [key for model in (JobSpec, ClusterProfile) for key in walk(model)]
    assert not [key.dotted for key in keys if key.path[-1] != "kind" and not generate.sentence(key)]


def test_yaml_in_papers_loads() -> None:
    tiny = read("jobs/llm-tiny.yaml").replace("tie_embeddings: true", "tie_embeddings: false")
    loaded = 0
    for paper in PAPERS:
        for text in blocks(paper, "yaml"):
            if text.startswith("name:"):
                (parse_profile if "backend:" in text else parse_job)(text, paper.name)
                loaded += 1
            for fragment in re.findall(r"^mesh: .*", text, re.MULTILINE):
                parse_job(tiny.replace("mesh: {strategy: HYBRID_SHARD}", fragment), f"{paper.name}: {fragment}")
                loaded += 1
    assert loaded >= 7


def files_of(cls: type) -> Iterator[str]:
    """The names that a class of contract/paths/ gives out, up to what differs from rank to rank."""
    for name, member in vars(cls).items():
        if isinstance(member, property) and member.fget is not None and name not in ("number", "run_dir", "node_rank"):
            yield str(member.fget(cls(Path("/run"))).relative_to("/run")).partition("%")[0]
        elif inspect.isfunction(member) and inspect.signature(member).return_annotation == "Path":
            yield str(member(cls(Path("/run")), 7).relative_to("/run")).partition("7")[0]


@pytest.mark.parametrize("cls", [RunPaths, AttemptPaths, NodePaths])
def test_the_run_directory_page_has_every_file(cls: type) -> None:
    cells = "\n".join(first_cells("docs/run-directory.md"))
    missing = [name for name in files_of(cls) if f"`{name}" not in cells]
    assert not missing


def test_the_run_directory_page_has_every_word_and_code() -> None:
    page, cells = read("docs/run-directory.md"), first_cells("docs/run-directory.md")
    assert not [word for word in (*State, *StopReason, *AbortReason) if f"`{word}`" not in page]
    assert [cell for cell in cells if cell.isdigit()] == [str(int(code)) for code in (*CliExit, *NodeExit)]


def test_own_scripts_are_told_every_variable() -> None:
    page = read("docs/own-scripts.md")
    variables = {value for name, value in vars(Env).items() if name.isupper()}
    assert {cell.strip("`") for cell in first_cells("docs/own-scripts.md") if "FSDPCTL_" in cell} == variables - {
        Env.HOME
    }
    assert f"`{Env.HOME}`" in page
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), SubmitHost("r-aaaa", "/r", "/s", sys.executable, ()))
    given = node_env(plan, NodeContext(0, 1, "h", 1, "eth0"))
    elsewhere = {Env.HOME, Env.USER_PYTHONPATH, Env.PREEMPT_GRACE}  # of the command line, its shell, a Slurm job
    assert {name for name in given if name.startswith("FSDPCTL_")} == variables - elsewhere


def test_the_python_page_has_every_method_and_error() -> None:
    page = read("docs/python-api.md")
    for cls, prefix in ((Client, "Client()."), (Run, "run.")):
        for name, member in inspect.getmembers(cls, inspect.isfunction):
            if not name.startswith("_"):
                assert f"`{prefix}{name}{words_of(member)}`" in page
    for name, member in inspect.getmembers(errors, inspect.isclass):
        if errors.FsdpctlError in member.__bases__ and member is not errors.RunFailed:  # that one is for exit codes
            assert f"`{name}`" in page


def words_of(function: Any) -> str:
    """A signature as one would type it: without self and types."""
    signature = inspect.signature(function)
    plain = [param.replace(annotation=inspect.Parameter.empty) for param in list(signature.parameters.values())[1:]]
    words = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return words.replace("'", '"')


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_python_page_runs(tmp_path: Path) -> None:
    require("torch")
    (script,) = blocks(ROOT / "docs" / "python-api.md", "python")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr
    assert "SUCCEEDED finished at step 12" in done.stdout
    assert re.search(r"^0 .*resuming at step 12 ", done.stdout, re.MULTILINE)
