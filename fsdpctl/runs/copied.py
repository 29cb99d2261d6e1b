"""Which files of a run's working directory came with a copy of the project: all others were written by ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fsdpctl.contract.codec import read_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.node.queries.receive_files import find_extra, find_kept, inventory


@dataclass(frozen=True)
class CopiedFiles:
    """The files that copies brought. One that has another identity now was changed by a rank."""

    newest: tuple[str, ...] = ()  # names in the newest copy, below the run directory
    identities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name -> of all copies, the newest last

    @property
    def wanted(self) -> dict[str, str]:
        """The newest copy: name -> identity."""
        return {name: self.identities[name][-1] for name in self.newest}

    def followed_by(self, wanted: Mapping[str, str]) -> CopiedFiles:
        """Return the record after another copy: what older ones brought is still known, so a kill does no harm."""
        added = {
            name: (*(known for known in self.identities.get(name, ()) if known != identity), identity)
            for name, identity in wanted.items()
        }
        return CopiedFiles(tuple(wanted), {**self.identities, **added})


def inventory_project(run: RunPaths) -> dict[str, str]:
    """Return name -> identity of all files in the copy of the project."""
    return inventory(run.root, [_source(run)])


def read_copied(run: RunPaths) -> CopiedFiles | None:
    """Return the record; None for the bundled trainer, and for a run of an older version."""
    return read_json(CopiedFiles, run.copied) if run.copied.exists() else None


def has_written(run: RunPaths) -> bool:
    """Return whether ranks have added or changed files in the copy of their project, other than byte code.

    True for a run of an older version, which has no record of its copy. Raise OSError and CodecError.
    """
    copied = (read_copied(run) or CopiedFiles()).identities
    newest = {name: identities[-1] for name, identities in copied.items()}
    return bool(find_extra(run.root, [_source(run)], newest) or find_kept(run.root, newest, copied))


def _source(run: RunPaths) -> str:
    return str(run.source.relative_to(run.root))
