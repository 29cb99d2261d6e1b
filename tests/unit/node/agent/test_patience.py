"""An agent passes over errors of a file server that pass."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fsdpctl.node.agent.patience import Patience


def test_only_an_error_that_lasts_is_raised(capfd: pytest.CaptureFixture[str]) -> None:
    now, answers = [0.0], ["a", OSError(5, "EIO"), OSError(116, "ESTALE"), "b", *[OSError(5, "EIO")] * 3]

    def look() -> str:
        now[0] += 6.0
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    looks = Patience(10.0, lambda: now[0])
    assert [looks.call(look) for _ in range(6)] == ["a", None, None, "b", None, None]
    with pytest.raises(OSError, match="EIO"):
        looks.call(look)
    assert capfd.readouterr().out.count("passed over") == 2  # once a time
    answers.append("c")
    assert looks.call(look) == "c"


def test_work_that_must_be_done_is_repeated_until_an_error_lasts() -> None:
    now, beats = [0.0], []
    errors = [OSError(116, "ESTALE"), OSError(5, "EIO")]

    def write() -> str:
        now[0] += 6.0
        if errors:
            raise errors.pop(0)
        return "written"

    assert Patience(10.0, lambda: now[0]).retry(write, lambda: beats.append(now[0])) == "written"
    assert beats == [6.0, 12.0]
    errors += [OSError(5, "EIO")] * 3
    with pytest.raises(OSError, match="EIO"):
        Patience(10.0, lambda: now[0]).retry(write, lambda: None)


def test_an_error_is_passed_over_where_the_log_is_on_the_same_disk() -> None:
    """The log of an agent is in the run directory, as all that it reads."""
    script = """
from fsdpctl.node.agent.patience import Patience
errors = [OSError(28, "ENOSPC"), OSError(28, "ENOSPC")]
def look():
    if errors:
        raise errors.pop()
    raise SystemExit(7)
Patience(60.0).retry(look, lambda: None)
"""
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert subprocess.run([sys.executable, "-c", script], stdout=full).returncode == 7
