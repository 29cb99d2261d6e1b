"""torch is imported without the garbage collector, which works again afterwards, also where the import fails."""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path

import pytest

from fsdpctl.node.os.quick_imports import import_torch_quickly


@pytest.fixture(autouse=True)
def _no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "modules", {name: module for name, module in sys.modules.items() if name != "torch"})
    importlib.invalidate_caches()


@pytest.mark.parametrize(("last_line", "is_whole"), [("", True), ("raise OSError('libcudart.so.13')", False)])
def test_the_collector_rests_during_the_import_only(tmp_path: Path, last_line: str, is_whole: bool) -> None:
    text = f"import gc, helper\nWAS_ENABLED = gc.isenabled()\n{last_line}\n"
    (tmp_path / "torch.py").write_text(text)
    (tmp_path / "helper.py").write_text("import gc\nassert not gc.isenabled()\n")
    import_torch_quickly()
    before = list(sys.meta_path)
    try:
        if is_whole:
            assert importlib.import_module("torch").WAS_ENABLED is False
        else:
            with pytest.raises(OSError, match="libcudart"):
                importlib.import_module("torch")
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0, "what was imported is not searched again"
        assert sys.meta_path == before[1:]
    finally:
        gc.unfreeze()


def test_a_missing_torch_is_reported_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    import_torch_quickly()
    with pytest.raises(ModuleNotFoundError, match="No module named 'torch'"):
        importlib.import_module("torch")
    assert gc.isenabled()
