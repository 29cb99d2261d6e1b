"""What `--hostfile` cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.discover.host_list import read_host_list
from fsdpctl.errors import UsageError


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file or directory"), (b"\xff\n", "it is no UTF-8 text")], ids=["none", "bytes"]
)
def test_a_hostfile_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "hosts"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_host_list(None, path)
    assert caught.value.message == f"{path}: cannot read the hosts: {why}"
