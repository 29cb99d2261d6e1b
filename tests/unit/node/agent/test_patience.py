"""An agent passes over errors of a file server that pass."""

from __future__ import annotations

import pytest

from fsdpctl.node.agent.patience import Patience


def test_only_an_error_that_lasts_is_raised(capsys: pytest.CaptureFixture[str]) -> None:
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
    assert capsys.readouterr().out.count("passed over") == 2  # once a time
    answers.append("c")
    assert looks.call(look) == "c"
