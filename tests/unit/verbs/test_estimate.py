"""A config.json that `estimate` cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.errors import UsageError
from fsdpctl.verbs.estimate import read_model


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xfe{}", "it is no UTF-8 text"),
        (b"[" * 100_000, "its values are nested too deeply"),
        (b'{\n"hidden_size": ', "it is no JSON: line 2: Expecting value"),
        (b"[]", "it is no mapping"),
        (b'{"model_type": ["llama"]}', "its model_type is no text"),
    ],
    ids=["bytes", "deep", "cut", "list", "type"],
)
def test_a_config_that_cannot_be_used_is_named_with_the_reason(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_model(tmp_path)
    assert caught.value.message == f"--model {tmp_path}: config.json cannot be used: {why}"
