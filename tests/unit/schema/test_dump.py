"""Every dumped spec loads back to an equal value."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsdpctl.backends.slurm.profile_keys import SlurmSection
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.contract.trainer.trainer_config import BatchConfig, CheckpointConfig, OptimConfig, TrainerConfig
from fsdpctl.schema.dump import dump_yaml
from fsdpctl.schema.types import check_text
from fsdpctl.schema.yaml_tree import read_scalar
from fsdpctl.specs.job import Entrypoint, JobSpec
from fsdpctl.specs.load import load_job, load_profile, parse_job, parse_profile
from fsdpctl.specs.profile import ClusterProfile, LocalSection, Network, Node

# Text that some YAML parsers take for something else.
TRAPS = ["", "~", "null", "yes", "no", "on", "True", "017", "0x1f", "1e-4", "1.", ".5", ".inf", "1_000", "10:00:00"]
TRAPS += ["2-00:00:00", "2001-01-01", "-", "- a", "? a", "a: b", "a #b", "#", "&a", "*a", "!a", "%", "@", "|", ">"]
TRAPS += ["[", "{", "'", '"', "<<", "=", "---", "...", "\\", " a", "a ", "9" * 30, "1e999", "caf\u00e9", "\u202e"]

texts = st.sampled_from(TRAPS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
one_line_texts = texts.filter(lambda text: _accepted(text))
seconds = st.integers(1, 10**8)


def _accepted(text: str) -> bool:
    try:
        return check_text(text) == text
    except ValueError:
        return False


@pytest.mark.slow
@settings(deadline=None)  # test machines are busy
@given(st.lists(one_line_texts, max_size=5), texts.filter(lambda text: "\0" not in text), seconds, seconds)
def test_a_job_of_any_text_loads_back(args: list[str], value: str, grace: int, more: int) -> None:
    job = JobSpec(
        name="x",
        entrypoint=Entrypoint(script="a b.py"),
        args=tuple(args),
        env={"A": value},
        time_limit=f"{grace + more}s",
        grace=f"{grace}s",
    )
    assert parse_job(dump_yaml(job), "job.yaml") == job


@pytest.mark.slow
@settings(deadline=None)  # test machines are busy
@given(st.floats(min_value=0, exclude_min=True, allow_infinity=False), st.none() | st.booleans())
def test_a_trainer_loads_back(number: float, compiled: bool | None) -> None:
    model = {
        "vocab_size": 256,
        "d_model": 8,
        "layers": 1,
        "heads": 2,
        "kv_heads": 1,
        "head_dim": 4,
        "ffn": 8,
        "seq_len": 8,
    }
    trainer = TrainerConfig(
        model=ModelConfig(**model, norm_eps=number),
        batch=BatchConfig(sequences=2, micro_batch=1),
        optim=OptimConfig(lr=number),
        checkpoint=CheckpointConfig(every_steps=5),
        steps=10,
        compile=compiled,
    )
    job = JobSpec(name="x", trainer=trainer)
    assert parse_job(dump_yaml(job), "job.yaml") == job


@pytest.mark.slow
@settings(deadline=None)  # test machines are busy
@given(st.dictionaries(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True), one_line_texts, max_size=4))
def test_a_profile_loads_back(labels: dict[str, str]) -> None:
    profile = ClusterProfile(
        name="1e5",
        backend=SlurmSection(kind="slurm", partition="on", extra=("--mail-type=END",)),
        nodes=(Node(id="no", address="::1", labels=labels), Node(id="0", address="10", port=23)),
        network=Network(ib_hcas=("mlx5_0:1",), nccl={"NCCL_DEBUG": "1"}),
        setup=("module load cuda/13",),
    )
    assert parse_profile(dump_yaml(profile), "profile.yaml") == profile


def test_the_shipped_files_load_back() -> None:
    for name in ("llm-tiny", "llm90m", "llm300m"):
        assert parse_job(dump_yaml(load_job(name)), name) == load_job(name)
    for name in ("local", "slurm-h100", "ssh-h100"):
        assert parse_profile(dump_yaml(load_profile(name)), name) == load_profile(name)


def test_equal_values_are_written_without_aliases() -> None:
    env = {"A": "x"}
    profile = ClusterProfile(name="x", env=env, network=Network(nccl={}), backend=LocalSection(), nodes=())
    assert "&" not in dump_yaml(profile)


@pytest.mark.parametrize(
    ("text", "value"),
    {
        "": None, "~": None, "null": None, "Null": None,
        "true": True, "FALSE": False, "yes": "yes", "no": "no", "on": "on", "y": "y",
        "0": 0, "-5": -5, "+5": 5, "017": "017", "0o17": "0o17", "0x1f": "0x1f", "1_000": "1_000", "\u0663": "\u0663",
        "1e-4": 1e-4, "3.0e-3": 3e-3, "1e3": 1000.0, ".5": 0.5, "5.": 5.0, "01.5": "01.5", ".inf": ".inf", "nan": "nan",
        "10:00:00": "10:00:00", "24:00": "24:00", "2001-01-01": "2001-01-01", "=": "=",
    }.items(),
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    assert (read_scalar(text), type(read_scalar(text))) == (value, type(value))
