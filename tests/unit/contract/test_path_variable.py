"""Which environment variable has led to a path that cannot be used."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fsdpctl.contract.first_failure import find_variable
from fsdpctl.contract.path_variable import find_path_variable


def denied(path: Path | str, code: int = errno.ENOENT) -> OSError:
    return OSError(code, os.strerror(code), str(path))


def test_the_variable_of_a_directory_that_is_not_there_is_found(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "no/hub"), "PATH": "/bin:/usr/bin", "N": "3"}
    assert find_path_variable(denied(tmp_path / "no/hub/models/x"), env) == "HF_HOME"
    assert find_path_variable(denied(tmp_path / "no/hub"), env) == "HF_HOME"
    assert find_path_variable(denied(tmp_path / "no/hubs"), env) == ""


def test_of_two_the_more_precise_one_counts(tmp_path: Path) -> None:
    env = {"A": str(tmp_path / "no"), "B": str(tmp_path / "no/b"), "C": str(tmp_path / "no")}
    assert find_path_variable(denied(tmp_path / "no/b/c"), env) == "B"


def test_a_directory_that_can_be_used_is_not_blamed(tmp_path: Path) -> None:
    """Then what is wrong is below it."""
    assert find_path_variable(denied(tmp_path / "train.bin"), {"DATA": str(tmp_path)}) == ""


def test_one_that_may_not_be_written_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"TRITON_CACHE_DIR": str(tmp_path), "ROOT": "/"}
    assert find_path_variable(denied(tmp_path / "a", errno.EACCES), env) == ""
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    assert find_path_variable(denied(tmp_path / "a/b", errno.EACCES), env) == "TRITON_CACHE_DIR"
    assert find_path_variable(denied(tmp_path / "a", errno.ENOSPC), env) == ""
    (tmp_path / "a").mkdir()
    assert find_path_variable(denied(tmp_path / "a/b", errno.EACCES), env) == "", "that is for `a` to permit"


def test_one_below_a_directory_that_may_not_be_searched_is_found(other_user: Path) -> None:
    (other_user / "private/hub").mkdir(parents=True)
    (other_user / "private").chmod(0)
    env = {"HOME": str(other_user), "HF_HOME": str(other_user / "private/hub")}
    assert find_path_variable(denied(other_user / "private/hub/x", errno.EACCES), env) == "HF_HOME"
    (other_user / "private").chmod(0o700)


@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "FSDPCTL_RUN_DIR"])
def test_shells_and_the_launcher_are_not_blamed(tmp_path: Path, name: str) -> None:
    assert find_path_variable(denied(tmp_path / "no/x"), {name: str(tmp_path / "no")}) == ""


def test_the_error_may_be_what_another_was_raised_from(tmp_path: Path) -> None:
    error = RuntimeError("no cache")
    error.__cause__ = denied(tmp_path / "no")
    assert find_variable(error, {"XDG_CACHE_HOME": str(tmp_path / "no")}) == "XDG_CACHE_HOME"
    assert find_variable(ValueError("3"), {"A": "/no"}) == ""
    assert find_variable(OSError("without a number"), {"A": "/no"}) == ""
