"""The mounted file systems of this host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fsdpctl.contract.host import FileSystem

MOUNTS = Path("/proc/self/mountinfo")
IN_MEMORY = ("tmpfs", "ramfs")
SERVED = (
    *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "wekafs", "pvfs2", "glusterfs", "9p"),
    *("virtiofs", "afs", "panfs", "vastnfs"),
)
"""Kinds of file systems on a server; those of FUSE have a name like fuse.sshfs or fuse.juicefs."""
_LOCAL_FUSE = ("fuse.lxcfs", "fuse.portal", "fuse.gvfsd-fuse", "fuse.snapfuse")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def has_server(filesystem: FileSystem) -> bool:
    """Return whether other hosts may have the same file system."""
    kind = filesystem.kind
    return kind in SERVED or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)


def read_mounts(mounts: Path = MOUNTS) -> Iterator[FileSystem]:
    """Yield all mounted file systems, the newest last."""
    for line in mounts.read_text(errors="replace").splitlines():
        fields, _, rest = line.partition(" - ")
        kind, source, *_ = (*rest.split(), "", "")
        yield FileSystem(kind, _unescape(source), _unescape(fields.split()[4]))


def find_filesystem(directory: Path, mounts: Path = MOUNTS) -> FileSystem:
    """Return the file system of the nearest mount point above `directory`; of equal ones the last, as it is on top."""
    real = directory.resolve()
    found = FileSystem("unknown", "", "/")
    for filesystem in read_mounts(mounts):
        if real.is_relative_to(filesystem.mount) and len(filesystem.mount) >= len(found.mount):
            found = filesystem
    return found


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
