"""Which checkpoint of an Accelerator is loaded, whatever moment a save was killed at."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fsdpctl.contract import Env

pytest.importorskip("torch")

from fsdpctl.integrations import accelerate
from fsdpctl.integrations.accelerate import find_newest, load_state, publish, save_state


class Accelerator(SimpleNamespace):
    """Saves a text, and records what it loads."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text=text, is_main_process=True, is_local_main_process=True, wait_for_everyone=lambda: None)

    def save_state(self, folder: str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, "state").write_text(self.text)

    def load_state(self, folder: str) -> None:
        self.text = Path(folder, "state").read_text()


def load() -> tuple[int, str]:
    accelerator: Any = Accelerator()
    return load_state(accelerator), accelerator.text


def save(step: int, text: str) -> None:
    accelerator: Any = Accelerator(text)
    save_state(accelerator, step)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(Env.CHECKPOINT_DIR, str(tmp_path))
    return tmp_path


def test_one_step_may_be_saved_twice(folder: Path) -> None:
    assert load() == (0, "")
    save(100, "periodic")
    save(100, "at the stop")
    assert load() == (100, "at the stop")
    assert [path.name for path in folder.iterdir()] == ["step-00000100"]


@pytest.mark.parametrize("killed_at", ["rename", "rmtree"])
def test_a_replacement_that_is_killed_leaves_a_whole_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    save(100, "first")
    with monkeypatch.context() as patch:
        _die(patch, killed_at)
        with pytest.raises(InterruptedError):
            save(100, "second")
    assert load() == (100, "first" if killed_at == "rename" else "second")
    save(100, "third")
    assert load() == (100, "third")
    assert [path.name for path in folder.iterdir()] == ["step-00000100"]


def _die(patch: pytest.MonkeyPatch, at: str) -> None:
    """End a save before the second rename, or before what was replaced is removed."""
    calls: list[object] = []
    rename = Path.rename

    def die(*args: Any, **kwargs: Any) -> Path:
        calls.append(args)
        if len(calls) == 2:
            raise InterruptedError
        return rename(*args) if at == "rename" else args[0]

    if at == "rename":
        patch.setattr(Path, "rename", die)
    else:
        patch.setattr("shutil.rmtree", die)


def test_the_newest_is_the_one_of_the_largest_step(tmp_path: Path) -> None:
    assert find_newest(tmp_path / "no-such-folder") is None
    for name in ("step-00000009", "step-00000100", "step-100000000", "step-00000300.partial"):
        (tmp_path / name).mkdir()
    assert find_newest(tmp_path) == tmp_path / "step-100000000"
    (tmp_path / "new").mkdir()
    publish(tmp_path / "new", tmp_path / "step-100000001")
    assert find_newest(tmp_path) == tmp_path / "step-100000001"


def test_ranks_that_have_found_different_checkpoints_load_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(100, "here")

    def differ(found: str | None) -> None:
        raise RuntimeError(found)

    monkeypatch.setattr(accelerate, "check_same", differ)
    with pytest.raises(RuntimeError, match="step-00000100"):
        load()
