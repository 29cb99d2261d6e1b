"""The messages of `submit` and `resume --update-code` about a project that they copy."""

from __future__ import annotations

import pytest

from fsdpctl.cli.copy_progress import LARGE_BYTES, show_copy


@pytest.mark.parametrize(
    ("size", "reported"), [(LARGE_BYTES - 1, []), (LARGE_BYTES, ["copying 2 files of /p: 50 MB, kept with the run"])]
)
def test_only_a_large_project_is_reported_with_a_hint(
    size: int, reported: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with show_copy() as progress:
        for done in (0, size // 2, size):
            progress("copying 2 files of /p", done, size)
        assert capsys.readouterr() == ("", "")  # while the run starts
    lines = capsys.readouterr().err.splitlines()
    assert lines[:1] == reported
    assert all(line.startswith("hint: with git, ignored files are not copied; without git") for line in lines[1:])
    assert len(lines) == 2 * len(reported)


def test_a_copy_that_fails_reports_no_size(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError), show_copy() as progress:
        progress("copying 2 files of /p", LARGE_BYTES, LARGE_BYTES)
        raise OSError
    assert capsys.readouterr().err == ""
