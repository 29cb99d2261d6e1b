"""Users without a name."""

from __future__ import annotations

import os
import pwd

import pytest

from fsdpctl.contract.user import user_name


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)


def test_a_user_has_the_name_of_the_entry() -> None:
    assert user_name() == pwd.getpwuid(os.getuid()).pw_name


def test_a_user_without_an_entry_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 54321)
    assert user_name() == "54321"
