"""Where a rank's exception comes from: the same place in two attempts is the same failure."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from fsdpctl.node.agent.rank import find_place

FAILS_IN_A_LIBRARY = """
import json
from contextlib import contextmanager
@contextmanager
def opened():
    yield
def load(text):
    with opened():
        return json.loads(text)
load("{")
"""


@pytest.mark.parametrize(
    ("script", "place"),
    [
        (FAILS_IN_A_LIBRARY, "script.py:9 in load"),
        ("def load():\n    raise SystemExit(3)\nload()\n", "script.py:2 in load"),
        ("import no_such_package\n", "script.py:1 in <module>"),
    ],
)
def test_the_innermost_frame_of_the_users_code_is_the_place(script: str, place: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(script)
    with pytest.raises(BaseException) as caught:
        runpy.run_path(str(tmp_path / "script.py"), run_name="__main__")
    assert find_place(caught.value) == f"{tmp_path}/{place}"


def test_a_frame_of_an_integration_is_not_of_the_user(tmp_path: Path) -> None:
    wrapper = tmp_path / "fsdpctl" / "integrations" / "framework.py"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text("def train():\n    raise ValueError\n")
    (tmp_path / "script.py").write_text(f"import runpy\nrunpy.run_path({str(wrapper)!r})['train']()\n")
    with pytest.raises(ValueError) as caught:
        runpy.run_path(str(tmp_path / "script.py"))
    assert find_place(caught.value) == f"{tmp_path}/script.py:2 in <module>"


def test_an_exception_that_was_never_raised_has_no_place() -> None:
    assert find_place(ValueError("made by hand")) == ""
