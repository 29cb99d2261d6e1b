"""Every test has a home of its own: no test can see or touch the developer's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.ssh.cluster import cluster  # noqa: F401  fixture
from tests.real_home import pytest_configure, pytest_unconfigure, real_home_stays_untouched  # noqa: F401
from tests.testbed.disks import freezable_disk, small_disk  # noqa: F401  fixtures
from tests.testbed.other_user import other_user  # noqa: F401  fixture
from tests.testbed.s3 import bucket, s3_endpoint  # noqa: F401  fixtures
from tests.testbed.slurm import slurm, slurm_session  # noqa: F401  fixtures
from tests.testbed.slurmdbd import accounting  # noqa: F401  fixture
from tests.testbed.ssh_hosts import lan, ssh_lan  # noqa: F401  fixtures
from tests.tiers import (  # noqa: F401
    is_fast_or_marked_slow,
    pytest_collection_modifyitems,
    pytest_ignore_collect,
    pytest_xdist_auto_num_workers,
)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home directory, with nothing of an outer run or a user's configuration in the environment."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(("FSDPCTL_", "XDG_", "TORCHELASTIC_", "SLURM_")) and name != "FSDPCTL_REQUIRE":
            monkeypatch.delenv(name)
    monkeypatch.delenv("PYTHONPATH", raising=False)  # ranks of own scripts get the submitting shell's
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FSDPCTL_HOME", str(home / "fsdpctl"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield home


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_arrives() -> None:
    """A job in the background of a script ignores SIGINT, and so would everything that is started here."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
