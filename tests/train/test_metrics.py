"""metrics.jsonl has each step once, whatever was cut short; a full disk loses nothing that a checkpoint knows."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fsdpctl.contract.trainer.llama.config import LlamaConfig
from tests.train.single_rank import SingleRank
from train.errors import TrainError
from train.metrics import table
from train.metrics.jsonl import JsonlWriter, read_metrics
from train.metrics.progress_log import ProgressLog
from train.metrics.recorder import Recorder, StepTensors, _rate
from train.metrics.stragglers import StragglerDetector
from train.metrics.tensorboard import TensorBoardWriter
from train.metrics.utilization import Utilization, attended_share
from train.metrics.writer import HeldOutLoss, MetricsWriter, StepMetrics


def step_metrics(step: int, loss: float = 1.0) -> StepMetrics:
    return StepMetrics(
        step, loss, loss.hex(), "00" * 8, 1e-3, 0.5, 100.0, None, step * 256, 0.0, 1, 256, 0, 1.0, None, {}
    )


def test_the_utilization_needs_a_gpu_whose_speed_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    model = LlamaConfig(vocab_size=8, d_model=4, layers=1, heads=1, kv_heads=1, head_dim=4, ffn=8, seq_len=16)
    flops = 100 * (model.matrix_flops + 0.25 * model.attention_flops)
    eight_gpus: Any = SimpleNamespace(device=torch.device("cuda"), size=8)
    for name, tflops in (("NVIDIA H100 80GB HBM3", 989.5), ("Some Card", None)):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _, name=name: name)
        expected = flops / (8 * tflops * 1e12) if tflops else None
        assert Utilization.of(model, eight_gpus).at(100, attended=0.25) == pytest.approx(expected)
    a_cpu: Any = SimpleNamespace(device=torch.device("cpu"), size=8)
    assert Utilization.of(model, a_cpu).at(100, attended=1.0) is None


def test_documents_leave_a_share_of_the_pairs_of_tokens() -> None:
    whole, documents = torch.arange(8), torch.tensor([0, 1, 0, 1, 2, 3, 4, 5])
    assert attended_share(whole.sum(), 8, 8) == 1
    assert attended_share(documents.sum(), 8, 8) == (2 * 2 + 6 * 6) / 64


def test_a_resume_cuts_off_what_is_beyond_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    file = JsonlWriter(path, tmp_path / "evaluations.jsonl", start_step=0)
    for step in range(1, 8):
        file.write(step_metrics(step, loss=10.0 - step))
    file.close()
    path.write_text(path.read_text() + '{"step": 8, "lo')

    file = JsonlWriter(path, tmp_path / "evaluations.jsonl", start_step=4)
    assert (file.first_loss, file.last_loss) == (9.0, 6.0)
    file.write(step_metrics(5, loss=0.25))
    assert [record["step"] for record in read_metrics(path)] == [1, 2, 3, 4, 5]
    assert (file.first_loss, file.last_loss) == (9.0, 0.25)


def test_a_resume_reads_what_it_cuts_and_not_each_line_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps(asdict(step_metrics(step, loss=1.0 / step))) for step in range(1, 1001)]
    path.write_text("\n".join(lines))  # of the last line, its end was not written
    parsed = []
    monkeypatch.setattr(json, "loads", lambda line, loads=json.loads: parsed.append(line) or loads(line))
    file = JsonlWriter(path, tmp_path / "evaluations.jsonl", start_step=998)
    assert path.read_text() == "".join(line + "\n" for line in lines[:998]), "to the byte"
    assert (file.first_loss, file.last_loss) == (1.0, 1.0 / 998)
    assert len(parsed) <= 5
    file.close()
    JsonlWriter(path, tmp_path / "evaluations.jsonl", start_step=0).close()
    assert path.read_text() == ""


def test_a_held_out_loss_that_is_not_finite_is_null_for_readers_of_json(tmp_path: Path) -> None:
    evaluations = tmp_path / "evaluations.jsonl"
    file = JsonlWriter(tmp_path / "metrics.jsonl", evaluations, start_step=0)
    for step, loss in ((2, 1.5), (4, float("nan")), (6, float("inf"))):
        file.write_held_out(HeldOutLoss(step, loss, 3.0))
    file.close()
    assert [record["held_out_loss"] for record in read_metrics(evaluations)] == [1.5, None, None]
    assert HeldOutLoss(2, 1.5, 3.0).summary() == {"held_out_loss": 1.5, "unigram_entropy": 3.0}
    assert HeldOutLoss(4, float("nan"), 3.0).summary() == {"unigram_entropy": 3.0}


class FullDisk:
    """Takes three bytes, then nothing, until there is room."""

    def __init__(self, path: Path) -> None:
        self.path, self.room, self.is_full = path, 3, True

    def write(self, data: bytes) -> int:
        if self.is_full and self.room == 0:
            raise OSError(errno.ENOSPC, "No stragglers left on device")
        taken = data[: self.room] if self.is_full else data
        self.room -= len(taken)
        with self.path.open("ab") as file:
            return file.write(taken)

    def fileno(self) -> int:
        raise AssertionError("not reached while the disk is full")


def test_a_full_disk_fails_the_save_but_not_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    file = JsonlWriter(path, tmp_path / "evaluations.jsonl", start_step=0)
    disk = FullDisk(path)
    monkeypatch.setattr(file, "_file", disk)
    file.write(step_metrics(1))
    file.write(step_metrics(2))
    with pytest.raises(OSError, match="No stragglers left"):
        file.sync()
    disk.is_full = False
    file.write(step_metrics(3))
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3]


class Kept(MetricsWriter):
    def __init__(self) -> None:
        self.seen: list[StepMetrics] = []
        self.is_closed = False

    def write(self, metrics: StepMetrics) -> None:
        self.seen.append(metrics)

    def close(self) -> None:
        self.is_closed = True


def test_the_recorder_keeps_the_loss_to_the_bit_and_the_order() -> None:
    writer, world = Kept(), SingleRank()
    seen, stragglers = writer.seen, StragglerDetector(world, every=10)
    config, layout = SimpleNamespace(model=None), SimpleNamespace(tokens_per_step=256)
    context: Any = SimpleNamespace(world=world, layout=layout, config=config, attempt=2)
    recorder = Recorder(context, 0, [writer], watch=lambda _: None, stragglers=stragglers)
    recorder.lag = 2  # as on a GPU
    for step in (1, 2, 3):
        loss, one = torch.tensor(1 / (step + 2), dtype=torch.float64), torch.tensor(1.0)
        recorder.record(step, StepTensors(loss, one, loss, one, one, one, one, one), lr=0.1, samples="ab")
    assert [m.step for m in seen] == [1]
    recorder.drain()
    assert [m.step for m in seen] == [1, 2, 3]
    assert [m.loss_hex for m in seen] == [(1 / 3).hex(), (1 / 4).hex(), (1 / 5).hex()]
    assert [m.tokens for m in seen] == [256, 512, 768]
    assert all(m.tokens_per_s > 0 and m.attempt == 2 for m in seen)
    recorder.wait_for(3)
    recorder.close()
    with pytest.raises(TrainError, match="before the metrics of step 4 were written"):
        recorder.wait_for(4)


@pytest.mark.parametrize(
    ("is_main", "is_writer", "opened"),
    [(True, True, ["disk", "run"]), (False, True, ["disk"]), (False, False, [])],
)
def test_writers_are_opened_once_a_run_or_once_a_disk(
    monkeypatch: pytest.MonkeyPatch, is_main: bool, is_writer: bool, opened: list[str]
) -> None:
    writers = {"disk": Kept(), "run": Kept()}
    rows = (
        table.WriterRow(lambda *_: writers["disk"], once_a_disk=True),
        table.WriterRow(lambda *_: writers["run"]),
    )
    monkeypatch.setattr(table, "WRITERS", rows)
    with ExitStack() as cleanup:
        context: Any = SimpleNamespace(world=SimpleNamespace(is_main=is_main, is_writer=is_writer), cleanup=cleanup)
        assert table.open_writers(context, 0) == [writers[name] for name in opened]
        assert not any(writer.is_closed for writer in writers.values())
    assert [name for name, writer in writers.items() if writer.is_closed] == opened


def test_tensorboard_shows_each_step_once_after_a_resume(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for start_step, last in ((0, 7), (4, 6)):
        board = TensorBoardWriter(tmp_path, start_step)
        for step in range(start_step + 1, last + 1):
            board.write(step_metrics(step, loss=float(10 * start_step + step)))
        board.write_held_out(HeldOutLoss(last, loss=0.5, unigram_entropy=2.0))
        board.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    shown = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert shown == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 45.0), (6, 46.0)]
    assert [(event.step, event.value) for event in events.Scalars("eval/held_out_loss")] == [(6, 0.5)]


class Broken:
    """A package whose protobuf does not fit: any attribute, or any call, raises TypeError."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __getattr__(self, name: str) -> Any:
        raise TypeError("Descriptors cannot be created directly")


def fail(*_: object, **__: object) -> None:
    raise AttributeError("module 'numpy' has no attribute 'bool8'")


@pytest.mark.parametrize(
    ("make", "warning"),
    [
        (Broken, "tensorboard cannot be imported: "),
        (lambda: SimpleNamespace(SummaryWriter=fail), "no more TensorBoard files: module 'numpy'"),
        (lambda: SimpleNamespace(SummaryWriter=Broken), "no more TensorBoard files: Descriptors"),
    ],
)
def test_a_broken_tensorboard_is_one_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    make: Callable[[], Any],
    warning: str,
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", make())
    board = TensorBoardWriter(tmp_path, 0)
    for step in (1, 2):
        board.write(step_metrics(step))
    board.close()
    assert len(caplog.messages) == 1 and caplog.messages[0].startswith(warning)


def test_a_step_that_was_held_up_for_hours_still_has_a_rate() -> None:
    """It would round to 0, by which the time that is left is divided."""
    shown = ProgressLog(0, steps=10, log_every=1, tokens_per_step=256)
    for step in (1, 2, 3):
        shown.write(replace(step_metrics(step), tokens_per_s=_rate(256, 20_000.0)))
    assert shown.tokens_per_s == pytest.approx(256 / 20_000)
    assert _rate(524_288, 2.1785713) == pytest.approx(524_288 / 2.1785713, rel=1e-6)
