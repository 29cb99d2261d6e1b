"""Starting the trainer: by hand, under torchrun, and with configurations that cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import train
from fsdpctl.contract.codec import decode, read_json
from fsdpctl.contract.records import Outcome, RankError
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from tests.train.ranks import Config, checkpoints, column, start
from train.config import load_config
from train.errors import ConfigError
from train.parallel.layout import plan_layout
from train.parallel.rank_info import RankInfo

ROOT = Path(__file__).parents[2]


def run_by_hand(*arguments: str | Path, launcher: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *launcher, "train", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_under_torchrun_with_the_builtin_corpus(tmp_path: Path, config: Config) -> None:
    config.update(data={"source": "builtin"}, steps=4)
    config["model"]["vocab_size"] = 256
    (tmp_path / "trainer.json").write_text(json.dumps(config))
    launcher = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")
    ended = run_by_hand("--config", tmp_path / "trainer.json", launcher=launcher)
    assert ended.returncode == 0, ended.stderr
    assert "mesh: 1 x 2 (replicate x shard), HYBRID_SHARD, world 2, gloo" in ended.stderr
    assert "standard library of Python" in ended.stderr
    assert column(tmp_path, "step") == [1, 2, 3, 4]
    assert checkpoints(tmp_path) == ["step-00000004"]
    assert list((tmp_path / "tensorboard").glob("events.*"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps: [", "while parsing"),
        ("just text", "expected a mapping"),
        ("trainer: {steps: 5}", "model: missing"),
        ("", "expected a mapping"),
    ],
)
def test_bad_yaml_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_bad_configuration_is_reported_in_one_line_with_exit_code_2(tmp_path: Path, config: Config) -> None:
    config["optim"]["learning_rate"] = 1.0
    path = tmp_path / "trainer.json"
    path.write_text(json.dumps(config))
    ended = run_by_hand("--config", path)
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"train: {path}: optim.learning_rate: unknown key")


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.json: No such file"):
        load_config(tmp_path / "nothing.json")


def test_the_shipped_jobs_are_read_and_have_their_sizes() -> None:
    sizes = {name: load_config(ROOT / f"jobs/{name}.yaml").model.num_parameters for name in ("llm90m", "llm300m")}
    assert sizes == {"llm90m": 90_062_592, "llm300m": 303_080_448}
    assert load_config(ROOT / "jobs/llm-tiny.yaml").model.num_parameters < 2_000_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": {"sequences": 9, "micro_batch": 1}}, "9 sequences does not divide over 2 ranks"),
        ({"mesh": {"replicate": 3}}, "replicate 3 does not divide the 2 ranks"),
    ],
)
def test_what_does_not_divide_is_refused_before_anything_starts(
    config: Config, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_layout(decode(TrainerConfig, {**config, **change}), RankInfo(0, 2, 0, 2))


def test_an_expected_failure_reaches_the_launcher(tmp_path: Path, config: Config) -> None:
    config["data"]["source"] = str(tmp_path / "nowhere")
    env = {"FSDPCTL_OUTCOME_FILE": str(tmp_path / "outcome.json"), "FSDPCTL_NODE_DIR": str(tmp_path)}
    ranks = start(tmp_path, config, env={**env, "FSDPCTL_NODE_RANK": "1"})
    assert ranks.wait() == [2]
    outcome = read_json(Outcome, tmp_path / "outcome.json")
    assert (outcome.status, outcome.step) == ("failed", 0)
    assert "nowhere" in outcome.reason
    error = read_json(RankError, tmp_path / "error-0.json")
    assert (error.rank, error.node_rank, error.message) == (0, 1, outcome.reason)


def test_the_map_of_the_trainer_has_each_module_and_folder_once() -> None:
    modules = [path.stem for path in (ROOT / "train").glob("*.py") if not path.stem.startswith("__")]
    folders = [f"{path.parent.name}/" for path in (ROOT / "train").glob("*/__init__.py")]
    _, _, map_of_modules = str(train.__doc__).partition("is imported.\n")
    named = [name for line in map_of_modules.splitlines() for name in line.rpartition("  ")[2].split()]
    assert sorted(named) == sorted([*modules, *folders])


def test_importing_the_trainer_starts_nothing() -> None:
    code = "import sys, train.__main__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
