"""All ranks stop after the same step, and resume from the same checkpoint or not at all."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from fsdpctl.contract import Env
from fsdpctl.node.os import signals
from tests.services import require


def _rank(rank: int, folder: Path, results: multiprocessing.Queue[tuple[int, list[bool], str]]) -> None:
    import os

    import torch.distributed as dist

    from fsdpctl.integrations.stop import check_same, stop_requested, wait_for_all_ranks

    os.environ[Env.STOP_FILE] = str(folder / f"stop-{rank}")  # a disk on which one node sees the file first
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    found = [stop_requested()]
    wait_for_all_ranks()
    if rank == 1:
        (folder / "stop-1").touch()
    found.append(stop_requested())
    try:
        check_same("checkpoint-100" if rank == 0 else None)
        error = ""
    except RuntimeError as refused:
        error = str(refused)
    results.put((rank, found, error))
    wait_for_all_ranks()
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_agree(tmp_path: Path) -> None:
    require("torch")
    spawn = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[tuple[int, list[bool], str]] = spawn.Queue()
    ranks = [spawn.Process(target=_rank, args=(rank, tmp_path, results)) for rank in range(2)]
    for one in ranks:
        one.start()
    found = sorted(results.get(timeout=120) for _ in ranks)
    for one in ranks:
        one.join()
    assert [one.exitcode for one in ranks] == [0, 0]
    assert [answers for _, answers, _ in found] == [[False, True]] * 2
    for _, _, error in found:
        assert error.startswith("rank 0 resumes from checkpoint-100, but ranks have found ['None', 'checkpoint-100']")


def test_a_rank_without_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("torch")
    from fsdpctl.integrations.stop import leave, stop_requested

    monkeypatch.delenv(Env.STOP_FILE, raising=False)
    assert not stop_requested()
    monkeypatch.setenv(Env.STOP_FILE, str(tmp_path / "stop"))
    assert not stop_requested()
    (tmp_path / "stop").touch()
    assert stop_requested()
    ignored: list[bool] = []
    monkeypatch.setattr(signals, "ignore", lambda: ignored.append(True))
    with pytest.raises(SystemExit) as end:
        leave()
    assert (end.value.code, ignored) == (0, [True])
