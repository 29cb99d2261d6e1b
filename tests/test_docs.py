"""Links, commands, samples, tables and wording of the documentation, checked against the code."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer

from docs import commands_page, failures_page, generate, import_page, json_page, licences_page, lint_page, restarts_page
from docs.json_page import OTHER_SHAPES, SHAPES
from fsdpctl import Client, Run, errors
from fsdpctl.cli.app import build_app
from fsdpctl.commands.environment import node_env
from fsdpctl.contract import AbortReason, CliExit, Env, NodeExit, Phase, State, StopReason
from fsdpctl.contract.paths import AttemptPaths, NodePaths, RunPaths
from fsdpctl.contract.plan import NodeContext
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.schema.keys import walk
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import load_job, load_profile, parse_job, parse_profile
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.supervise.agents import Agents
from tests.backends.harness import fsdpctl
from tests.services import require
from tests.vocabulary import find_retired

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted(ROOT.glob("docs/**/*.md")),
]
OPTIONS = Path(__file__).with_name("cli_options.txt")
WRITTEN = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs"),
    *(f"fsdpctl/{path.name}" for path in sorted((ROOT / "fsdpctl").iterdir())),
    *(f"tests/{path.name}" for path in sorted((ROOT / "tests").iterdir())),
    *("train", "bench", "jobs", "cluster_profiles", "examples"),
)
"""Files and folders without retired words. To check another folder, add its name."""
WITH_RETIRED_WORDS = ("tests/older_runs", "tests/vocabulary.py", "tests/test_vocabulary.py")
"""Runs as an older version wrote them, and the list of retired words with its tests."""


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def first_cells(page: str) -> list[str]:
    """Return the first cell of each row of a page's tables."""
    return [line.split(" | ")[0].removeprefix("| ") for line in read(page).splitlines() if line.startswith("| ")]


# --- wording ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITTEN)
def test_no_retired_words(name: str) -> None:
    assert not find_retired(ROOT, name, WITH_RETIRED_WORDS)


CHINESE = {ROOT / "README.zh.md": ROOT / "README.md"} | {
    page: ROOT / "docs" / page.name for page in sorted(ROOT.glob("docs/zh/*.md"))
}


@pytest.mark.parametrize("page", CHINESE, ids=lambda path: path.name)
def test_a_chinese_page_is_in_step(page: Path) -> None:
    """The same commands, sections, links and code, though every comment is translated."""
    assert facts(page) == facts(CHINESE[page])


def facts(page: Path) -> tuple[object, ...]:
    """Return what a translation leaves as it is; a link to a translated page counts as one to the page."""
    text = page.read_text(encoding="utf-8")
    fence = re.compile(r"^```\w*\n.*?^```", re.DOTALL | re.MULTILINE)
    code = [re.sub(r" +# .*", "", block) for block in fence.findall(text)]
    text = fence.sub("", text)
    targets = {
        os.path.relpath(page.parent / link, ROOT).replace("/zh/", "/").replace("README.zh", "README")
        for link in re.findall(r"\]\(([^)]*)\)", text)
    }
    own = {os.path.relpath(CHINESE.get(page, page), ROOT)}  # the link to the other language
    inline = {word for word in re.findall(r"`([^`]+)`", text) if "<" not in word}
    return (
        len(re.findall(r"^## ", text, re.MULTILINE)),
        len(re.findall(r"^\| ", text, re.MULTILINE)),
        code,
        targets - own,
        inline,
    )


# --- links -----------------------------------------------------------------------------------------------------------


def slugs(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[tuple[str, str]]:
    """Return targets and anchors of all links of a page within the repository."""
    return re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for name, anchor in links(page):
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} links to {name}"
        assert not anchor or anchor in slugs(target), f"{page.name} links to {name}#{anchor}"


def test_every_page_can_be_reached_from_the_index() -> None:
    found, queue = set(), [ROOT / "docs" / "index.md"]
    while queue:
        page = queue.pop().resolve()
        if page not in found and page.suffix == ".md":
            found.add(page)
            queue += [page.parent / name for name, _ in links(page)]
    assert set(PAGES) - {ROOT / "README.md"} <= found
    assert "docs/index.md" in [name for name, _ in links(ROOT / "README.md")]


def test_every_page_is_behind_one_door() -> None:
    index = read("docs/index.md")
    assert re.findall(r"^## (.*)$", index, re.MULTILINE) == [
        *("Use", "Concepts", "Coming from another launcher", "Cluster", "Reference", "Internals", "中文")
    ]
    pages = Counter(str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs"))
    assert Counter(re.findall(r"^\| \[[^\]]*\]\(([\w/-]+\.md)\)", index, re.MULTILINE)) + Counter(["index.md"]) == pages


def test_files_that_are_named_exist() -> None:
    code = [path for folder in ("fsdpctl", "train", "examples") for path in ROOT.glob(f"{folder}/**/*.py")]
    named = {
        (path, name) for path in code for name in re.findall(r"docs/[\w/-]+\.md", path.read_text(errors="replace"))
    }
    in_pages = r"`((?:docs|tests|fsdpctl|train|jobs|examples|cluster_profiles|bench)/[\w./-]+)`"
    named |= {(page, name) for page in PAGES for name in re.findall(in_pages, page.read_text(encoding="utf-8"))}
    assert len(named) > 20
    missing = {f"{path.relative_to(ROOT)}: {name}" for path, name in named if not (ROOT / name).exists()}
    assert not {line for line in missing if "NAME" not in line}


# --- commands --------------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield page and words of each command: after a prompt or in an indented block. `status | stop` are two.

    Translations have the same.
    """
    for page in PAGES:
        if page in CHINESE:
            continue
        for line in re.findall(r"^(?:\$ |    )fsdpctl (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            yield from ((page.name, shlex.split(part, comments=True)) for part in line.split(" | "))


def test_there_are_commands_to_test() -> None:
    assert len([words for page, words in commands() if page == "README.md"]) > 10


@pytest.mark.parametrize(("page", "words"), list(commands()), ids=lambda value: str(value)[:60])
def test_commands_are_understood(page: str, words: list[str], tmp_path: Path) -> None:
    parse(words)
    if "--dry-run" in words or words[:2] in (["jobs", "ls"], ["profiles", "ls"], ["ls"]):
        fsdpctl(*words, cwd=tmp_path)
        assert not (Path(os.environ["FSDPCTL_HOME"])).exists(), "and create nothing"


@cache
def app() -> Any:
    """Return the whole command line, whose options take a while to build."""
    return typer.main.get_command(build_app())


def parse(words: list[str]) -> None:
    """Parse and check every option and argument, without running the command."""
    command: Any = app()
    context = command.make_context("fsdpctl", list(words))
    while hasattr(command, "commands"):
        left = [*context._protected_args, *context.args]
        if not left and command.invoke_without_command:
            return
        name, command, rest = command.resolve_command(context, left)
        context = command.make_context(name, rest, parent=context)


ESTIMATE = "estimate llm7b -p slurm-h100 --nodes 2"


@pytest.mark.parametrize("page", ["README.md", "README.zh.md", "docs/estimate.md"])
def test_the_estimate_on_a_page_is_what_one_sees(page: str, tmp_path: Path) -> None:
    (shown,) = re.findall(rf"^\$ fsdpctl {ESTIMATE}\n(.*?)^(?:\.\.\.|```)$", read(page), re.MULTILINE | re.DOTALL)
    printed = fsdpctl(*ESTIMATE.split(), cwd=tmp_path).stdout
    assert printed.startswith(shown)
    (refused,) = re.findall(r"^(error: job llm7b needs .*?)^```$", read(page), re.MULTILINE | re.DOTALL)
    words = ("submit", "llm7b", "-p", "slurm-h100", "--set", "trainer.mesh.strategy=DDP")
    assert fsdpctl(*words, cwd=tmp_path, expect=None).stderr.endswith(refused)


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
    """Yield every argument and option of every command."""

    def of(command: Any, name: str) -> Iterator[str]:
        for param in command.params:
            words = sorted(param.opts, key=len, reverse=True) if param.opts[0].startswith("-") else [param.name.upper()]
            yield f"{name} {' '.join(words)}"
        for inner, below in sorted(getattr(command, "commands", {}).items()):
            yield from of(below, f"{name} {inner}")

    yield from of(app(), "fsdpctl")


def test_no_option_comes_by_accident() -> None:
    """Compare with cli_options.txt: a new option is added there on purpose, and to the changelog."""
    assert list(cli_options()) == OPTIONS.read_text(encoding="utf-8").splitlines()


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "intro", "model"),
    [("jobs.md", generate.JOBS, JobSpec), ("profiles.md", generate.PROFILES, ClusterProfile)],
)
def test_generated_pages_are_fresh(name: str, intro: str, model: type) -> None:
    assert read(f"docs/{name}") == generate.render(intro, model), "make docs"


@pytest.mark.parametrize("page", [commands_page, restarts_page, failures_page, import_page, json_page, lint_page])
def test_the_pages_from_tables_are_fresh(page: Any) -> None:
    name = page.__name__.removeprefix("docs.").removesuffix("_page")
    assert read(f"docs/{name}.md") == page.render(), "make docs"


def test_the_licences_are_fresh() -> None:
    name = "torch"
    if metadata.version(name).partition("+")[0] != licences_page.pins()[name]:
        pytest.skip("another torch than that of constraints.txt may name another licence")
    assert read("docs/licences.md") == licences_page.render(), "make docs"


@pytest.mark.slow
def test_every_command_prints_json_in_a_documented_shape() -> None:
    commands = [name for name, _ in commands_page.commands("fsdpctl", app())][1:]
    words = [name.removeprefix("fsdpctl ") for name in commands]
    assert [name for name in words if f"fsdpctl {name} --json" not in cli_options()] == []
    assert sorted(words) == sorted({name for name in (*SHAPES, *OTHER_SHAPES) if " --" not in name})


def test_every_option_has_its_description() -> None:
    rows = [line for line in read("docs/commands.md").splitlines() if line.startswith("| `")]
    assert len(rows) > 50 and not [line for line in rows if line.endswith("|  |")]


def test_every_key_has_its_description() -> None:
    keys = [key for model in (JobSpec, ClusterProfile) for key in walk(model)]
    assert not [key.dotted for key in keys if key.path[-1] != "kind" and not generate.sentence(key)]


def test_yaml_in_the_pages_loads() -> None:
    tiny = read("jobs/llm-tiny.yaml").replace("tie_embeddings: true", "tie_embeddings: false")
    loaded = 0
    for page in PAGES:
        for text in blocks(page, "yaml"):
            if text.startswith("name:"):
                (parse_profile if "backend:" in text else parse_job)(text, page.name)
                loaded += 1
            for fragment in re.findall(r"^mesh: .*", text, re.MULTILINE):
                parse_job(tiny.replace("mesh: {strategy: HYBRID_SHARD}", fragment), f"{page.name}: {fragment}")
                loaded += 1
    assert loaded >= 7


def files_of(cls: type) -> Iterator[str]:
    """Yield the file names that a class of contract/paths/ defines, up to the part that differs between ranks."""
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


def test_the_run_directory_page_has_every_state_reason_and_code() -> None:
    page, cells = read("docs/run-directory.md"), first_cells("docs/run-directory.md")
    assert not [name for name in (*State, *StopReason, *AbortReason, *Phase) if f"`{name}`" not in page]
    assert [cell for cell in cells if cell.isdigit()] == [str(int(code)) for code in (*CliExit, *NodeExit)]


def test_the_parts_of_a_backend_are_listed() -> None:
    parts = set(re.findall(r'_part\("(\w+)', read("fsdpctl/backends/table.py")))
    (recipe,) = (line for line in read("CONTRIBUTING.md").splitlines() if line.startswith("| a launcher (backend) |"))
    table = "\n".join(first_cells("docs/architecture.md"))
    for page in (recipe, table):
        assert parts - {re.sub(r"\.py|/", "", name) for name in re.findall(r"`([\w./]+)`", page)} == set()
    methods = {name for name in vars(Agents) if not name.startswith("_")} - {"disk_tries"}
    (paragraph,) = (
        part for part in read("docs/architecture.md").split("\n\n") if part.startswith("`supervise/agents.py`")
    )
    assert methods - set(re.findall(r"`(\w+)`", paragraph)) == set()


def test_the_own_scripts_page_has_every_variable() -> None:
    page = read("docs/own-scripts.md")
    variables = {value for name, value in vars(Env).items() if name.isupper()}
    assert {cell.strip("`") for cell in first_cells("docs/own-scripts.md") if "FSDPCTL_" in cell} == variables - {
        Env.DATA_CACHE,
        Env.DATA_CACHE_GIB,
        Env.HOME,
        Env.PROFILE,
    }
    assert f"`{Env.HOME}`" in page and f"`{Env.PROFILE}`" in page
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), SubmitHost("r-aaaa", "/r", "/s", sys.executable, ()))
    given = node_env(plan, NodeContext(0, 1, "h", 1, "eth0"))
    elsewhere = {
        Env.HOME,
        Env.PROFILE,
        Env.USER_PYTHONPATH,
        Env.PREEMPT_GRACE,
        Env.INTEGRATIONS,
        Env.DATA_CACHE,
        Env.DATA_CACHE_GIB,
    }  # of the command line, its shell, a Slurm job, a job file
    assert {name for name in given if name.startswith("FSDPCTL_")} == variables - elsewhere


def test_the_python_page_has_every_method_and_error() -> None:
    page = read("docs/python-api.md")
    for cls, prefix in ((Client, "Client()."), (Run, "run.")):
        for name, member in inspect.getmembers(cls, inspect.isfunction):
            if not name.startswith("_"):
                assert f"`{prefix}{name}{call_of(member)}`" in page
    for name, member in inspect.getmembers(errors, inspect.isclass):
        if errors.FsdpctlError in member.__bases__ and member is not errors.RunFailed:  # that one is for exit codes
            assert f"`{name}`" in page


def call_of(function: Any) -> str:
    """Return a signature as it is called: without self and types."""
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
