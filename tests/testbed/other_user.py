"""Another user, as which a test continues: root may read and search everything."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def other_user() -> Iterator[Path]:
    """A folder of the other user."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    user = os.geteuid()
    try:
        if user == 0:
            os.chown(folder, 4242, 4242)
            os.seteuid(4242)
        yield folder
    finally:
        os.seteuid(user)
        shutil.rmtree(folder)
