"""The files that a host without a shared disk needs: of the run, its data, and the initial weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fsdpctl.contract.codec import CodecError, read_json
from fsdpctl.contract.data_url import is_url
from fsdpctl.contract.formats.dataset import INDEX_NAME, TOKENIZER_NAME, read_index
from fsdpctl.contract.formats.manifest import committed
from fsdpctl.contract.formats.weights import list_files
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.trainer.trainer_config import BUILTIN, TrainerConfig
from fsdpctl.node.queries import receive_files
from fsdpctl.runs.copied import CopiedFiles, inventory_project, read_copied

SLOWEST_BYTES_PER_S = 2**20
"""The slowest expected network."""
SLOWEST_READ_PER_S = 20 * 2**20
"""The slowest expected disk."""


@dataclass(frozen=True)
class FileSet:
    """Files that every host must have under the same path."""

    root: Path
    wanted: dict[str, str]  # name below `root` -> size or digest
    tops: tuple[str, ...] = ()  # nothing else may be below these
    copied: receive_files.Copied = field(default_factory=dict)  # the files beside which ranks write their own
    whole: bool = False  # if one file differs, all are sent

    @property
    def read_limit_s(self) -> float:
        """How long a host may take to read the files that are compared by digest."""
        read = [self.root / name for name, identity in self.wanted.items() if not receive_files.is_size(identity)]
        return sum(path.stat().st_size for path in read if path.is_file()) / SLOWEST_READ_PER_S


def find_file_sets(run: RunPaths) -> list[FileSet]:
    return [file_set for file_set in (run_files(run), data_files(run), weight_files(run)) if file_set is not None]


def run_files(run: RunPaths) -> FileSet:
    """Return the files of the run directory that ranks need. In the copy of the project ranks write, too."""
    tops = (*run.packages(), run.plan, run.trainer_config, run.secrets, run.rewinds)
    project = read_copied(run) or CopiedFiles().followed_by(inventory_project(run))
    names = tuple(str(path.relative_to(run.root)) for path in tops)
    wanted = {**receive_files.inventory(run.root, names), **project.wanted}
    return FileSet(run.root, wanted, names, project.identities)


def data_files(run: RunPaths) -> FileSet | None:
    """Return the prepared dataset if it is complete on this machine; else the hosts have it or prepare it."""
    if not run.trainer_config.exists():
        return None
    source = read_json(TrainerConfig, run.trainer_config).data.source
    if source == BUILTIN or is_url(source):
        return None
    directory = Path(source)
    try:
        index = read_index(directory)
        shards = [file.name for shard in (*index.train, *index.val) for file in shard.files(index.dtype)]
        sizes = {name: receive_files.size_of(directory / name) for name in shards}
        # The index is last, as in `data prepare`: a directory without it is no dataset.
        rest = receive_files.inventory(directory, [TOKENIZER_NAME, INDEX_NAME])
    except (OSError, CodecError):
        return None
    return FileSet(directory, {**sizes, **rest}, whole=True)


def weight_files(run: RunPaths) -> FileSet | None:
    """Return the initial weights if they are on this machine and still needed; else the hosts have them."""
    if not run.trainer_config.exists() or committed(run.checkpoints):
        return None  # a run that has a checkpoint continues from it
    init_from = read_json(TrainerConfig, run.trainer_config).init_from
    try:
        directory, names = list_files(Path(init_from)) if init_from else (run.root, [])
    except (OSError, ValueError):
        return None
    # Other weights of the same model have the same sizes: these need digests.
    return FileSet(directory, receive_files.inventory(directory, names)) if names else None
