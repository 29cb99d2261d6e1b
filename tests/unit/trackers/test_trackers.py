"""Each tracker for real: two attempts are one run at the service, which has each step once."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_args

import pytest

from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import TrackerName
from fsdpctl.trackers.mlflow import MlflowTracker
from fsdpctl.trackers.table import TRACKERS
from fsdpctl.trackers.tracker import Row, TrackedRun
from tests.services import require
from tests.unit.trackers.run_dir import SECRET, append, make_run, send

STEPS = list(range(1, 9))
VALUES = [101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 207.0, 208.0]
EVALUATIONS = [(4, 104.0), (8, 208.0)]


def two_attempts(run: RunPaths, send_one: Callable[[int, str], str]) -> list[str]:
    """The second attempt begins after step 4 and evaluates again where the first one has."""
    append(run.metrics, 1, range(1, 7))
    append(run.evaluations, 1, range(4, 5), "held_out_loss")
    first = send_one(1, "failed")
    append(run.metrics, 2, range(5, 9))
    append(run.evaluations, 2, range(4, 5), "held_out_loss")
    append(run.evaluations, 2, range(8, 9), "held_out_loss")
    return [first, send_one(2, "finished")]


def test_every_name_that_a_job_may_have_is_a_tracker() -> None:
    assert tuple(TRACKERS) == get_args(TrackerName)


@pytest.mark.slow
def test_tensorboard(tmp_path: Path) -> None:
    require("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = make_run(tmp_path / "run")
    two_attempts(run, lambda attempt, end: send(run, "tensorboard", attempt, end))
    events = EventAccumulator(str(run.tensorboard))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == list(zip(STEPS, VALUES, strict=True))
    assert [(event.step, event.value) for event in events.Scalars("held_out_loss")] == EVALUATIONS
    assert events.Scalars("loss")[0].wall_time == 1e9 + 1
    assert set(events.Tags()["scalars"]) == {"loss", "attempt", "held_out_loss"}


@pytest.mark.slow
def test_mlflow_in_a_file_store(tmp_path: Path) -> None:
    require("mlflow")
    run = make_run(tmp_path / "run")
    uri = f"file://{tmp_path}/store"
    env = {"MLFLOW_TRACKING_URI": uri, "MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_TRACKING_TOKEN": SECRET}
    printed = two_attempts(run, lambda attempt, end: send(run, "mlflow", attempt, end, env))
    assert "MLflow: run" in printed[1] and "not sent" not in "".join(printed)
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("mine")
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED"
    assert found.data.params == {"nodes": "1", "procs_per_node": "2", "entrypoint": "train.py",
                                 "args": "['--lr', '3e-4']"}  # fmt: skip
    history = sorted((metric.step, metric.value) for metric in client.get_metric_history(found.info.run_id, "loss"))
    assert history == list(zip(STEPS, VALUES, strict=True))
    held_out = client.get_metric_history(found.info.run_id, "held_out_loss")
    assert sorted((metric.step, metric.value) for metric in held_out) == EVALUATIONS


class MlflowServer:
    """Has one run, once it is created; takes no parameters while `refuses_params`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs: list[SimpleNamespace] = []
        self.metrics: list[list[str]] = []  # the names in each request
        self.refuses_params = False
        modules: dict[str, dict[str, Any]] = {
            "mlflow": {},
            "mlflow.exceptions": {"MlflowException": ConnectionError},
            "mlflow.tracking": {"MlflowClient": lambda: self},
            "mlflow.entities": {
                "Param": lambda key, value: (key, value),
                "Metric": lambda key, value, timestamp, step: key,
            },
        }
        for name, members in modules.items():
            module = ModuleType(name)
            vars(module).update(members)
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")

    def get_experiment_by_name(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(experiment_id="1")

    def search_runs(self, experiments: list[str], query: str, max_results: int) -> list[SimpleNamespace]:
        return self.runs

    def create_run(self, experiment: str, tags: dict[str, str], run_name: str) -> SimpleNamespace:
        self.runs = [SimpleNamespace(info=SimpleNamespace(run_id="r"), data=SimpleNamespace(params={}))]
        return self.runs[0]

    def update_run(self, run: str, status: str) -> None:
        pass

    def log_batch(
        self, run: str, metrics: list[str] | None = None, params: list[tuple[str, str]] | None = None
    ) -> None:
        if params is None:
            self.metrics.append(metrics or [])
            return
        if self.refuses_params:
            raise ConnectionError("down")
        known = self.runs[0].data.params
        assert not known.keys() & dict(params).keys(), "the server refuses another value"
        known |= dict(params)


def test_parameters_that_mlflow_refused_are_logged_at_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = MlflowServer(monkeypatch)
    first = TrackedRun("mine-k3f9", "mine", tmp_path, tmp_path, {"nodes": 1, "optim": {"lr": 3e-4}})
    server.refuses_params = True
    with pytest.raises(Exception, match="MLflow: down"):
        MlflowTracker(first)
    server.refuses_params = False
    MlflowTracker(first)
    MlflowTracker(TrackedRun("mine-k3f9", "mine", tmp_path, tmp_path, {"nodes": 2, "optim": {"lr": 3e-4}}))
    assert server.runs[0].data.params == {"nodes": "1", "optim.lr": "0.0003"}


def test_mlflow_gets_only_names_and_requests_that_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = MlflowServer(monkeypatch)
    tracker = MlflowTracker(TrackedRun("mine-k3f9", "mine", tmp_path, tmp_path, {}))
    keys = ["loss", "/loss[0]", "a//b/", "../c", "", ".", "..d", "x" * 300]
    tracker.send([Row(1, 0.0, dict.fromkeys(keys, 1.0))])
    assert server.metrics == [["loss", "loss_0_", "a/b", "c", "_", "_", "d", "x" * 250]]
    server.metrics.clear()
    many = dict.fromkeys(map(str, range(1500)), 1.0)
    tracker.send([Row(2, 0.0, {"loss": 1.0}), Row(3, 0.0, many)])
    assert [len(request) for request in server.metrics] == [1, 1000, 500]


def read_leveldb_log(data: bytes, header: int) -> Iterator[bytes]:
    """Yield the records of a log of LevelDB, which is what W&B writes after `header` bytes of its own."""
    block, record, offset = 32768, b"", 0
    while offset + 7 <= len(data):
        left = block - (offset + header) % block
        if left < 7:
            offset += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, offset)
        record += data[offset + 7 : offset + 7 + length]
        offset += 7 + length
        if kind in (1, 4):  # whole, or its last part
            yield record
            record = b""


@pytest.mark.slow
def test_wandb_offline(tmp_path: Path) -> None:
    require("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    run = make_run(tmp_path / "run")
    env = {"WANDB_MODE": "offline", "WANDB_API_KEY": SECRET}
    printed = two_attempts(run, lambda attempt, end: send(run, "wandb", attempt, end, env))
    assert "not sent" not in "".join(printed) and str(run.root / "wandb") in printed[0]
    shown: list[tuple[int, dict[str, str]]] = []
    for path in sorted(run.root.glob("wandb/offline-run-*/*.wandb")):
        assert path.name == "run-mine-k3f9.wandb"
        for record in map(Record.FromString, read_leveldb_log(path.read_bytes()[7:], header=7)):
            if record.WhichOneof("record_type") == "history":
                items = {item.key or ".".join(item.nested_key): item.value_json for item in record.history.item}
                shown.append((record.history.step.num, items))
    assert [step for step, _ in shown] == STEPS
    assert [float(items["loss"]) for _, items in shown] == VALUES
    evaluated = [(step, float(items["held_out_loss"])) for step, items in shown if "held_out_loss" in items]
    assert evaluated == EVALUATIONS


@pytest.mark.parametrize(
    ("name", "env", "reason"),
    [
        (
            "wandb",
            {"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": "k" * 40, "WANDB_INIT_TIMEOUT": "1"},
            "W&B:",
        ),
        ("mlflow", {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"}, "MLflow:"),
    ],
)
def test_a_service_that_is_unreachable_is_one_line(name: str, env: dict[str, str], reason: str, tmp_path: Path) -> None:
    require(name)
    run = make_run(tmp_path / "run")
    append(run.metrics, 1, range(1, 3))
    printed = send(run, name, 1, env=env)
    assert printed.count("not sent yet: TrackerError: " + reason) == 1, printed
    assert not run.tracker_state(name).exists()


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_package_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [module for module in sys.modules if module.startswith(f"{name}.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    from fsdpctl.trackers.__main__ import describe_run

    with pytest.raises(Exception, match=f"{name} is not installed in the Python of the ranks: pip install"):
        TRACKERS[name](describe_run(make_run(tmp_path / "run")))  # type: ignore[index]
