"""`--set`: the same rules as for the file, with the option as the location."""

from __future__ import annotations

import pytest

from fsdpctl.errors import UsageError
from fsdpctl.schema.dump import dump_yaml
from fsdpctl.schema.keys import walk
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import load_job, parse_job, parse_profile
from fsdpctl.specs.other_names import OTHER_NAMES
from fsdpctl.specs.search import find_job


def test_values_are_read_as_in_the_file() -> None:
    job = load_job("llm-tiny", ["trainer.steps=50", "trainer.optim.lr=1e-4", "time_limit=10:00:00", "nodes=2"])
    assert job.trainer is not None
    assert (job.trainer.steps, job.trainer.optim.lr, job.time_limit, job.nodes) == (50, 1e-4, 36_000, 2)


def test_the_last_override_of_a_key_wins() -> None:
    assert load_job("llm-tiny", ["nodes=2", "nodes=3"]).nodes == 3


def test_a_mapping_is_replaced_and_then_extended() -> None:
    job = load_job("llm-tiny", ["env={A: x, B: 'y z'}", "env.C=v"])
    assert job.env == {"A": "x", "B": "y z", "C": "v"}


@pytest.mark.parametrize(
    "text", ["a b", "#1", "a #b", "a: b", "*x", "&x", "!!python/name:os", "- x", "@", "`id`", "%", "|", "=", "1 "]
)
def test_unquoted_text_is_kept_to_its_last_character(text: str) -> None:
    assert load_job("llm-tiny", [f"env.A={text}"]).env == {"A": text}


def test_a_list() -> None:
    text = "name: x\nentrypoint: {script: a.py}\n"
    assert parse_job(text, "job.yaml", ["args=[--lr, '1e-4', \"#\"]"]).args == ("--lr", "1e-4", "#")


NUMBERS = ["3000", "-1", "3e-4", "0.10", "007", "true", "no", "1_000", "1:30"]


@pytest.mark.parametrize("text", NUMBERS)
def test_variables_and_arguments_are_taken_as_they_are_written(text: str) -> None:
    """In the file, on the command line, and in the copy that is stored with the run."""
    base = "name: x\nentrypoint: {script: a.py}\n"
    job = parse_job(f"{base}env: {{A: {text}}}\nargs: [--a, {text}]\n", "job.yaml", [f"env.B={text}"])
    assert (job.env, job.args) == ({"A": text, "B": text}, ("--a", text))
    replaced = parse_job(f"{base}env: {{A: 1}}\nargs: [1, 2]\n", "job.yaml", [f"args=[{text}]", "env.A=x"])
    assert (replaced.env, replaced.args) == ({"A": "x"}, (text,))
    assert parse_job(dump_yaml(job), "stored.yaml") == job


def test_so_are_the_variables_of_a_profile() -> None:
    text = "name: p\nbackend: ssh\nruns_root: /x\nnodes: [{id: a, address: h, env: {A: 1.0}}]\nenv: {B: 5}\n"
    profile = parse_profile(text + "network: {nccl: {NCCL_C: 0}}\n", "p.yaml")
    assert (profile.nodes[0].env, profile.env, profile.network.nccl) == ({"A": "1.0"}, {"B": "5"}, {"NCCL_C": "0"})


def test_null_unsets() -> None:
    assert load_job("llm-tiny", ["time_limit=null"]).time_limit is None
    assert load_job("llm-tiny", ["time_limit="]).time_limit is None


def test_a_value_may_be_long() -> None:
    assert len(load_job("llm-tiny", ["env.A=" + "x" * 1_000_000]).env["A"]) == 1_000_000


FORM = "must be like trainer.steps=50: keys joined by dots, '=', a value"
BAD = {
    "trainer.stps=5": "--set trainer.stps=5: trainer.stps: unknown key; did you mean steps? known keys: model, ",
    "trainr.steps=5": "--set trainr.steps=5: trainr: unknown key; did you mean trainer? known keys: ",
    "trainer.sharding_strategy=x": "sharding_strategy: unknown key; here it is trainer.mesh.strategy",
    "trainer.mesh.fsdp=true": "mesh.fsdp: unknown key; here it is trainer.mesh.strategy",
    "WORLD_SIZE=4": "WORLD_SIZE: unknown key; here it is nodes and procs_per_node",
    "a==b": "--set a==b: a: unknown key; known keys: name, ",
    "__class__=1": "--set __class__=1: __class__: unknown key; known keys: name, ",
    "trainer.__class__.x=1": "--set trainer.__class__.x=1: trainer.__class__: unknown key; known keys: model, ",
    "trainer.steps=1.5": "--set trainer.steps=1.5: trainer.steps: must be a whole number, got 1.5",
    "trainer.mesh={strategy: FUL_SHARD}": "trainer.mesh.strategy: must be one of FULL_SHARD, ",
    "name=8": """name: must be text, got 8; as text: --set 'name="8"'""",
    "env.A=": """env.A: must be text, got nothing; as text: --set 'env.A=""'""",
    "args=[[8]]": "args[0]: must be text, got a list",
    "nodes.x=1": "--set nodes.x=1: nodes is not a mapping, but 1",
    "env={A: x, A: y}": "--set env={A: x, A: y}: env.A: given twice; keep one of them",
    "args=[a": "--set args=[a: not valid YAML: ",
    "args=[*a]": "--set args=[*a]: anchors (&) and aliases (*) are not allowed",
    "args=[!!python/name:os x]": "the tag tag:yaml.org,2002:python/name:os is not allowed",
    "args=" + "[" * 3000: "not valid YAML: ",
    "nodes=" + "9" * 5000: "the number 9999999999999999999999999999999999999999... is too long",
    "env.A=a\0b": r"--set env.A=a\u0000b: env.A: an environment value cannot contain a NUL",
    "env.A=a\udcff": r"--set env.A=a\udcff: the value is not UTF-8",
    ".".join("a" * 60) + "=1": "nested more than 50 deep",
    "=": FORM,
    "=5": FORM,
    "steps": FORM,
    "": FORM,
    "a[0]=1": FORM,
    "a..b=1": FORM,
    ".a=1": FORM,
    "a b=1": FORM,
    "a\nb=1": FORM,
}  # fmt: skip


@pytest.mark.parametrize(("override", "expected"), BAD.items(), ids=[override[:30] for override in BAD])
def test_a_bad_override_is_explained(override: str, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        load_job("llm-tiny", [override])
    subject, *problems = error.value.message.splitlines()
    assert subject.startswith("job ")
    assert subject.endswith(" has 1 problem")
    assert len(problems) == 1
    assert problems[0].startswith("--set ")
    assert expected in problems[0]
    assert len(problems[0]) < 300


def test_problems_of_file_and_override_are_reported_together() -> None:
    with pytest.raises(UsageError) as error:
        parse_job("name: a b\nentrypoint: {script: a.py}\n", "job.yaml", ["nodes=0"])
    assert error.value.message.splitlines() == [
        "job job.yaml has 2 problems",
        "--set nodes=0: nodes: must be at least 1, got 0",
        "job.yaml:1: name: a name has 1 to 64 letters, digits, '.', '_' or '-' and starts with a letter or digit, "
        'got "a b"',
    ]


RULES = {
    (
        "trainer.optim.frozen=[block.0.*]",
    ): "trainer.optim.frozen: no parameter matches 'block.0.*'; did you mean blocks",
    ("trainer.optim.frozen=['*']",): "trainer.optim.frozen: nothing is left to train",
    ("trainer.model.vocab_size=255",): "trainer: data.source builtin needs model.vocab_size of at least 256",
    ("trainer.mesh.units.names=[blocks.*.foo]",): "trainer.mesh.units.names: no module is called 'blocks.*.foo'",
    ('trainer.mesh.units={"names":[x]}',): "trainer.mesh.units.names: no module is called 'x'",
    ("trainer.data.ignore_token=256",): "trainer: ignore_token 256 is no token: with vocab_size 256 they are 0 to 255",
    ("trainer.data.ignore_token=-100",): "trainer: ignore_token -100 is no token",
    (
        "trainer.data.attention=document",
        "trainer.model.head_dim=8",
    ): "trainer: attention within documents needs heads of at least 16 on GPUs; head_dim is 8",
    ("trainer.steps=10",): "trainer: warmup_steps 10 must be less than steps (10), or no step has the learning rate lr",
    ("trainer.profile.first_step=121",): "trainer: first_step 121 is after the last step, 120: nothing would be traced",
    ("time_limit=20s",): "time_limit: 20s must exceed grace (30s)",
    ("grace=2h", "time_limit=1h"): "time_limit: 1h must exceed grace (2h)",
    ("trainer.batch.tokens=8192",): "trainer.batch: give the global batch as sequences or as tokens",
    ("trainer.model.kv_heads=3",): "trainer.model: heads (4) must be a multiple of kv_heads (3)",
    ("trainer.eval.every_steps=0",): "trainer.eval: every_steps must be at least 1, or null; got 0",
    ("trainer.eval.sequences=0", "trainer.eval.every_steps=5"): "nothing is evaluated, so every_steps must be null",
    ("trainer.mesh.prefetch=0",): "trainer.mesh: prefetch must be at least 1, got 0",
    ("--grace=2h", "time_limit=1h"): "time_limit: 1h must exceed grace (2h)",
}


@pytest.mark.parametrize(("overrides", "expected"), RULES.items(), ids=[" ".join(overrides) for overrides in RULES])
def test_a_rule_over_several_keys_names_the_overrides(overrides: tuple[str, ...], expected: str) -> None:
    with pytest.raises(UsageError) as error:
        load_job("llm-tiny", overrides)
    [problem] = error.value.message.splitlines()[1:]
    assert expected in problem
    for override in overrides:
        typed = override.replace("=", " ", 1) if override.startswith("--") else f"--set {override}"
        assert typed in problem.split(": ")[0]


def test_unrelated_overrides_are_not_named() -> None:
    text = "name: x\nentrypoint: {script: a.py}\nrestarts: 3\ngrace: 2m\ntime_limit: 1m\n"
    with pytest.raises(UsageError) as error:
        parse_job(text, "job.yaml", ["restarts=4", "env.time_limit=x"])
    assert error.value.message.splitlines()[1:] == ["job.yaml:5: time_limit: 1m must exceed grace (2m)"]


def test_the_name_of_a_parameter_is_not_taken_for_a_key() -> None:
    text = find_job("llm-tiny").read_text().replace("warmup_steps: 10", "warmup_steps: 10, frozen: [blocks.2.*]")
    line = next(n for n, line in enumerate(text.splitlines(), 1) if "frozen" in line)
    with pytest.raises(UsageError) as error:
        parse_job(text, "job.yaml", ["trainer.mesh.units.blocks=2"])
    [problem] = error.value.message.splitlines()[1:]
    assert problem.startswith(f"job.yaml:{line}: trainer.optim.frozen: no parameter matches 'blocks.2.*'")


def test_every_broken_rule_is_reported() -> None:
    with pytest.raises(UsageError) as error:
        load_job("llm-tiny", ["args=[a]", "time_limit=20s"])
    assert error.value.message.splitlines()[1:] == [
        "--set args=[a]: args: the bundled trainer takes none; its settings belong under `trainer`",
        "--set time_limit=20s: time_limit: 20s must exceed grace (30s)",
    ]


def test_names_of_other_programs_lead_to_keys_that_exist() -> None:
    keys = {key.dotted for key in walk(JobSpec)}
    paths = {word for here in OTHER_NAMES.values() for word in here.partition(",")[0].split(" and ")}
    assert paths <= keys
    assert not OTHER_NAMES.keys() & {key.path[-1] for key in walk(JobSpec)}, "these have a hint already"
