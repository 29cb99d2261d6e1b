"""A compiled graph that is loaded gives what one gives that was traced, and what it cannot be used for is traced."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch._dynamo.exc import PackageError
from torch._dynamo.utils import counters

from fsdpctl.contract.codec import decode
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from tests.train.ranks import Config
from train.model import table
from train.model.documents import find_documents
from train.model.language_model import LanguageModel
from train.parallel.parallelize import COMPILER, apply_compile
from train.parallel.saved_graph import SavedGraph, graph_file_name

T = 16
CPU = torch.device("cpu")


@pytest.fixture
def trainer_config(config: Config) -> TrainerConfig:
    config["model"] |= {"layers": 1, "dropout": 0.0, "seq_len": T}
    return decode(TrainerConfig, config)


@pytest.fixture(autouse=True)
def own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    with torch._inductor.config.patch({"cpp.vec_isa_ok": False}):  # a quarter less of the C++ compiler's time
        yield
    torch.compiler.reset()


def build(config: TrainerConfig, path: Path) -> LanguageModel:
    model = table.build(config.model)
    for name, parameter in model.named_parameters():
        parameter.data = model.initial_value(name, parameter.shape, seed=1)
    model.fill_buffers()
    apply_compile(model, (), path)
    return model


def step(model: LanguageModel, sequences: int = 2) -> list[float]:
    """Return the loss of fixed tokens, and the norm of each gradient."""
    tokens_BT = torch.arange(sequences * T).view(sequences, T) * 7 % 50
    model.zero_grad()
    loss = model(tokens_BT, tokens_BT.roll(-1, 1))
    loss.backward()
    return [
        loss.item(),
        *(float(parameter.grad.norm()) for parameter in model.parameters() if parameter.grad is not None),
    ]


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.message for record in caplog.records if record.name == "train.parallel.saved_graph"]
    caplog.clear()
    return lines


@pytest.mark.timeout(300)
def test_a_graph_is_loaded_or_made_anew_and_gives_the_same(
    tmp_path: Path, trainer_config: TrainerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "graph"
    made = step(build(trainer_config, path))
    saved = path.read_bytes()
    assert logged(caplog) == [] and path.stat().st_mode & 0o777 == 0o600

    counters.clear()
    model = build(trainer_config, path)
    model.body._traced = torch.compile(model.summed_loss, dynamic=False, backend="aot_eager")  # no kernels
    assert step(model) == made and logged(caplog) == ["compiled graph loaded"]
    assert not counters["stats"], "traced"
    with torch.no_grad():
        assert model(torch.zeros(2, T, dtype=torch.long), torch.zeros(2, T, dtype=torch.long)) > 0
    traced = counters["stats"]["unique_graphs"]
    assert traced == 1, "what evaluates is another graph"
    assert step(model, sequences=3)[0] > made[0] and counters["stats"]["unique_graphs"] == 2, "another shape"
    assert step(model) == made and counters["stats"]["unique_graphs"] == 2, "the loaded one again"

    for damaged in (b"", saved[:-1] + bytes([saved[-1] ^ 1])):
        path.write_bytes(damaged)
        assert step(build(trainer_config, path)) == made
        assert logged(caplog) == [f"compiled graph not loaded: {path} is damaged"]
        assert step(build(trainer_config, path)) == made and logged(caplog) == ["compiled graph loaded"]

    nowhere = tmp_path / "nowhere" / "graph"
    assert step(build(trainer_config, nowhere)) == made
    assert len(lines := logged(caplog)) == 1 and lines[0].startswith("compiled graph not saved: ")


@pytest.mark.timeout(300)
def test_a_graph_that_torch_cannot_save_is_traced_and_not_tried_again(
    tmp_path: Path, trainer_config: TrainerConfig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "graph"

    def fail_with(error: Exception, function: str) -> None:
        def fails(*_: Any, **__: Any) -> None:
            raise error

        monkeypatch.setattr(f"torch._dynamo.aot_compile.{function}", fails)

    expected = step(build(trainer_config, path))
    fail_with(TypeError("no such argument"), "AOTCompiledFunction.deserialize")
    fail_with(OSError("disk full"), "aot_compile_fullgraph")
    for _ in range(2):
        assert step(build(trainer_config, path)) == expected
        assert logged(caplog) == [
            f"compiled graph not loaded: {path}: no such argument",
            "compiled graph cannot be made: disk full",
        ]
    path.unlink()
    fail_with(PackageError("a guard"), "aot_compile_fullgraph")
    assert step(build(trainer_config, path)) == expected and logged(caplog) == [
        "compiled graph cannot be made: a guard"
    ]
    assert step(build(trainer_config, path)) == expected and logged(caplog) == []
    path.unlink()
    monkeypatch.undo()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    fail_with(TypeError("no such argument"), "AOTCompiledFunction.serialize")
    assert step(build(trainer_config, path)) == expected
    assert logged(caplog) == ["compiled graph cannot be saved: no such argument"]
    assert step(build(trainer_config, path)) == expected and logged(caplog) == []


def test_where_the_compiler_is_switched_off_no_graph_is_loaded(tmp_path: Path, trainer_config: TrainerConfig) -> None:
    with torch._dynamo.config.patch(disable=True):  # as TORCH_COMPILE_DISABLE does
        step(build(trainer_config, tmp_path / "graph"))
    assert not (tmp_path / "graph").exists()


def test_documents_have_no_saved_graph(tmp_path: Path, trainer_config: TrainerConfig) -> None:
    model = table.build(trainer_config.model)
    graph = SavedGraph(model, tmp_path / "graph", COMPILER)
    graph._traced = lambda *arguments: arguments
    documents = find_documents(torch.arange(T)[None])
    tokens_BT = torch.zeros(1, T, dtype=torch.long)
    assert graph(tokens_BT, tokens_BT, documents) == (tokens_BT, tokens_BT, documents)
    assert not (tmp_path / "graph").exists()


def test_the_name_has_what_no_guard_compares(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def name(device: torch.device = CPU, **changed: Any) -> str:
        return graph_file_name(decode(TrainerConfig, {**config, **changed}), device)

    names = [name(), name(deterministic=True), name(optim={**config["optim"], "frozen": ["embed.weight"]})]
    names.append(name(torch.device("cuda", 1)))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/elsewhere")
    assert name() == names[0]
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    names.append(name())
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    names.append(name())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 17)
    names.append(name())
    assert len(set(names)) == len(names)
