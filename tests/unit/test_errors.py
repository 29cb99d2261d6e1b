"""The hint that a missing library comes with."""

from __future__ import annotations

import pytest

from fsdpctl.extras import requirement


@pytest.mark.parametrize(
    ("direct_url", "wanted"),
    [
        (None, "'fsdpctl[zstd]'"),
        ('{"dir_info": {"editable": true}, "url": "file:///home/me/a%20clone"}', "-e '/home/me/a clone[zstd]'"),
        ('{"dir_info": {}, "url": "file:///home/me/fsdpctl"}', "'/home/me/fsdpctl[zstd]'"),
        ('{"vcs_info": {"vcs": "git"}, "url": "https://example.com/fsdpctl"}', "'fsdpctl[zstd]'"),
    ],
)
def test_an_extra_is_asked_of_where_fsdpctl_came_from(direct_url: str | None, wanted: str) -> None:
    assert requirement("zstd", direct_url) == wanted
