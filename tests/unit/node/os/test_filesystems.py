"""On which file system a directory is, by /proc/self/mountinfo."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.host import FileSystem
from fsdpctl.node.os.filesystems import find_filesystem, has_server

MOUNTS = """\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 21 0:40 / /shared rw - nfs4 server:/export/my\\040data rw,vers=4.2
31 30 0:41 / /shared/fast rw master:2 - lustre 10.0.0.1@o2ib:/fs rw
32 21 0:42 / /shared2 rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("directory", "kind", "mount"),
    [
        ("/home/me", "ext4", "/"),
        ("/shared/runs", "nfs4", "/shared"),
        ("/shared/fast/x/y", "lustre", "/shared/fast"),
        ("/shared2", "tmpfs", "/shared2"),
        ("/shared3", "ext4", "/"),
    ],
)
def test_the_nearest_mount_point_counts(directory: str, kind: str, mount: str, tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    found = find_filesystem(Path(directory), tmp_path / "mountinfo")
    assert (found.kind, found.mount) == (kind, mount)
    if kind == "nfs4":
        assert found.source == "server:/export/my data"


def test_file_systems_of_servers_are_known_by_their_kind() -> None:
    served = {kind: has_server(FileSystem(kind, "", "/")) for kind in ("nfs4", "lustre", "fuse.juicefs", "ext4")}
    assert served == {"nfs4": True, "lustre": True, "fuse.juicefs": True, "ext4": False}
    assert not has_server(FileSystem("fuse.lxcfs", "", "/"))
