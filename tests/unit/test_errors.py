"""The install command in the hint of an error about a missing library."""

from __future__ import annotations

import pytest

from fsdpctl.errors import requirement


@pytest.mark.parametrize(
    ("direct_url", "expected"),
    [
        (None, "'fsdpctl[zstd]'"),
        ('{"dir_info": {"editable": true}, "url": "file:///home/me/a%20clone"}', "-e '/home/me/a clone[zstd]'"),
        ('{"dir_info": {}, "url": "file:///home/me/fsdpctl"}', "'/home/me/fsdpctl[zstd]'"),
        ('{"vcs_info": {"vcs": "git"}, "url": "https://example.com/fsdpctl"}', "'fsdpctl[zstd]'"),
    ],
)
def test_an_extra_is_installed_from_the_source_of_fsdpctl(direct_url: str | None, expected: str) -> None:
    assert requirement("zstd", direct_url) == expected
