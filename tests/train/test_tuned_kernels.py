"""The choice of a kernel is kept once, and one that cannot be taken leaves the kernel as it was. With a GPU: `_gpu`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

from train.compile_cache.archive import find_files
from train.compile_cache.tuned_kernels import keep_choices

FIRST, SECOND = 2048, 1024
"""The reduction block of a kernel, and what torch adds."""


class Kernel:
    """What torch's autotuner is for these functions. It times nothing: `fastest` is the block that wins."""

    def __init__(self, fastest: int, blocks: tuple[int, ...] = (FIRST,)) -> None:
        self.filename, self.fastest, self.timed = "/cache/ab/cabc.py", fastest, 0
        self.fn = SimpleNamespace(fn=None)
        self.compile_results: list[Any] = [self._precompile_config(config(block)) for block in blocks]
        self.launchers: list[Any] = []
        self._make_launchers()

    def _make_launchers(self) -> None:
        self.launchers = [SimpleNamespace(config=result.config) for result in self.compile_results]

    def _precompile_config(self, config: Any) -> Any:
        if config.kwargs["R0_BLOCK"] > FIRST:
            raise RuntimeError("out of resources")
        return SimpleNamespace(config=config)

    def _reload_kernel(self) -> Any:
        return SimpleNamespace(fn=len)

    def load(self) -> None:
        """Do what torch does when a kernel is loaded and first called."""
        autotuner: Any = CachingAutotuner
        autotuner._dynamic_scale_rblock(self)
        if len(self.launchers) > 1:
            autotuner.autotune_to_one_config(self)

    @property
    def block(self) -> int:
        (launcher,) = self.launchers
        return int(launcher.config.kwargs["R0_BLOCK"])


def config(block: int) -> Any:
    return SimpleNamespace(kwargs={"XBLOCK": 1, "R0_BLOCK": block}, num_warps=8, num_stages=1)


def add_one(kernel: Kernel) -> None:
    kernel.compile_results.append(kernel._precompile_config(config(SECOND)))
    kernel._make_launchers()


def tune(kernel: Kernel) -> None:
    kernel.timed += 1
    kernel.launchers = [one for one in kernel.launchers if one.config.kwargs["R0_BLOCK"] == kernel.fastest]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(CachingAutotuner, "_dynamic_scale_rblock", add_one)
    monkeypatch.setattr(CachingAutotuner, "autotune_to_one_config", tune)
    keep_choices(tmp_path)
    return tmp_path


def loaded(kernel: Kernel) -> Kernel:
    kernel.load()
    return kernel


@pytest.mark.parametrize("fastest", [FIRST, SECOND])
def test_the_first_choice_is_taken_by_all_later_processes(cache: Path, fastest: int) -> None:
    other = FIRST + SECOND - fastest
    assert (loaded(Kernel(fastest)).block, loaded(Kernel(other)).block) == (fastest, fastest)
    assert loaded(Kernel(other)).timed == 0
    assert find_files(cache) == ["tuned/cabc.json"], "it is saved with the run"


def test_of_two_ranks_that_time_at_once_both_take_the_choice_of_the_faster(cache: Path) -> None:
    ranks = [Kernel(FIRST), Kernel(SECOND)]
    autotuner: Any = CachingAutotuner
    for kernel in ranks:
        autotuner._dynamic_scale_rblock(kernel)
    for kernel in ranks:
        autotuner.autotune_to_one_config(kernel)
    assert [kernel.block for kernel in ranks] == [FIRST, FIRST]


@pytest.mark.parametrize("kept", ["", "{", "[]", "{}", "null", json.dumps({"kwargs": {"R0_BLOCK": 2 * FIRST}})])
def test_a_file_that_describes_no_choice_is_as_none(cache: Path, kept: str) -> None:
    loaded(Kernel(FIRST))
    (cache / "tuned/cabc.json").write_text(kept)
    kernel = loaded(Kernel(SECOND))
    assert (kernel.block, kernel.timed) == (SECOND, 1)


@pytest.mark.parametrize("block", [2 * FIRST, "x"])
def test_a_choice_that_cannot_be_compiled_is_made_again(cache: Path, block: object) -> None:
    (cache / "tuned").mkdir()
    unusable = {"kwargs": {"XBLOCK": 1, "R0_BLOCK": block}, "num_warps": 8, "num_stages": 1}
    (cache / "tuned/cabc.json").write_text(json.dumps(unusable))
    kernel = loaded(Kernel(SECOND))
    assert (kernel.block, kernel.timed) == (SECOND, 1)


def test_a_kernel_to_which_nothing_is_added_is_left_to_torch(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(CachingAutotuner, "_dynamic_scale_rblock", lambda kernel: None)
    monkeypatch.setattr(CachingAutotuner, "autotune_to_one_config", tune)
    keep_choices(cache)
    assert loaded(Kernel(SECOND, (FIRST, SECOND))).block == SECOND
    assert not (cache / "tuned").exists()


def test_a_full_or_missing_disk_costs_only_the_choice(cache: Path) -> None:
    (cache / "tuned").write_text("in the way")
    assert loaded(Kernel(SECOND)).block == SECOND
    assert loaded(Kernel(FIRST)).block == FIRST
