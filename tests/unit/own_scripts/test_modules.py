"""Which modules a script needs: followed through the project, and looked for in an interpreter without importing."""

from __future__ import annotations

import sys
from pathlib import Path

from fsdpctl.own_scripts.imports import read_imports
from fsdpctl.own_scripts.modules import find_missing, find_module, only_outside, read_needed

SOURCE = """\
import os, not_there
from pkg.inner import thing
try:
    import maybe
except ImportError:
    maybe = None
if TYPE_CHECKING:
    import typing_only
def later():
    import lazy
with open("x"):
    import inside
if __name__ == "__main__":
    import at_the_end
"""


def test_only_imports_that_always_happen_are_read() -> None:
    found = {one.module: one.line for one in read_imports(SOURCE, "a.py")}
    assert found == {"os": 1, "not_there": 1, "pkg.inner": 2, "inside": 12, "at_the_end": 14}


def test_imports_are_followed_through_the_copy_of_the_project(tmp_path: Path) -> None:
    texts = {
        "src/train.py": "import helper\nfrom pkg import first\nfrom pkg.sub.second import x\nimport local_only\n",
        "src/helper.py": "import of_helper\nimport train\n",
        "src/pkg/__init__.py": "",
        "src/pkg/first.py": "from . import third\nfrom .sub import second\n",
        "src/pkg/third.py": "import of_third\n",
        "src/pkg/sub/__init__.py": "",
        "src/pkg/sub/second.py": "from .. import first\nfrom ..third import x\n\nx = = 1\n",
        "src/local_only.py": "import never\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    needed = read_needed(tmp_path, sorted(texts.keys() - {"src/local_only.py"}), "src/train.py")
    assert {(one.file, one.line, name) for name, one in needed.outside.items()} == {
        ("src/helper.py", 1, "of_helper"),
        ("src/pkg/third.py", 1, "of_third"),
    }
    assert needed.problems == [
        "src/train.py:4: import local_only: src/local_only.py is not copied into the run: git ignores it, or it has the"
        " name of a secret",
        "src/pkg/sub/second.py:4: does not compile: invalid syntax",
    ]


def test_a_module_that_is_run_by_its_name_has_the_project_as_its_first_place(tmp_path: Path) -> None:
    texts = {"pkg/__init__.py": "", "pkg/train.py": "from pkg.config import load\nimport config\n", "pkg/config.py": ""}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert find_module("pkg.train", texts) == "pkg/train.py" and find_module("json.tool", texts) is None
    assert list(read_needed(tmp_path, texts, "pkg/train.py", is_module=True).outside) == ["config"]
    assert list(read_needed(tmp_path, texts, "pkg/train.py").outside) == ["pkg"]


def test_a_module_that_the_project_may_have_in_another_place_is_not_looked_for(tmp_path: Path) -> None:
    script = "import mylib, elsewhere, _ops, torch_not_there, notes\n"
    files = ["scripts/train.py", "mylib/__init__.py", "src/elsewhere.py", "src/_ops.cpython-311-x.so", "notes.md"]
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text(script)
    needed = read_needed(tmp_path, files, "scripts/train.py")
    assert list(only_outside(needed, files)) == ["torch_not_there", "notes"]

    (tmp_path / "scripts" / "train.py").write_text(f"import sys\nsys.path.insert(0, '..')\n{script}")
    assert not only_outside(read_needed(tmp_path, files, "scripts/train.py"), files)


def test_an_interpreter_is_asked_for_modules_without_importing_them(tmp_path: Path) -> None:
    (tmp_path / "breaks.py").write_text("raise SystemExit(3)\n")
    names = ["breaks", "json", "sys", "torch_not_there", "xml"]
    assert find_missing(sys.executable, (), {"PYTHONPATH": str(tmp_path)}, names, tmp_path) == {"torch_not_there"}
    assert find_missing(sys.executable, (), {"PYTHONPATH": "."}, names, tmp_path) == {"torch_not_there"}
    setup = (f"export PYTHONPATH={tmp_path}", "echo talks")
    assert find_missing(sys.executable, setup, {}, names, tmp_path) == {"torch_not_there"}
    assert find_missing("/no/such/python", (), {}, names, tmp_path) is None
    assert find_missing(sys.executable, ("false",), {}, names, tmp_path) is None
