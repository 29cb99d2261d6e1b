"""Tensors in a directory, through torch's distributed checkpoint (DCP), without untrusted pickles.

DCP would unpickle its table of contents, and entries of kind "bytes", whatever is in them. Here a state holds tensors
only, and the table is read by `fsdpctl.contract.formats.dcp_table`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future
from torch.serialization import set_crc32_options

from fsdpctl.contract.byte_progress import Report
from fsdpctl.contract.formats.dcp_table import read_table
from train.checkpoint.staging import StagedTensor
from train.checkpoint.threads import run_in_threads
from train.errors import ConfigError, unreadable

PART_BYTES = 128 * 2**20
MAX_PARTS = 8  # files of one rank, each written, then digested, and read again, by a thread of its own

set_crc32_options(False)  # the manifest has a SHA-256 of every file


class StorageError(Exception):
    """Tensors could not be written or read; the text is the first cause."""


def write_tensors(
    directory: Path, staged: Mapping[str, StagedTensor], group: dist.ProcessGroup, report: Report
) -> None:
    """Write this rank's part, flushed to disk. Collective: raises StorageError on every rank when one fails.

    `report` is called with the size of each tensor in bytes, in any thread.
    """
    try:
        save(
            dict(staged),
            storage_writer=_TensorWriter(directory),
            planner=_StagedPlanner(report),
            process_group=group,
        )
    except CheckpointException as error:
        raise StorageError(_first_cause(error)) from None


def read_tensors(
    directory: Path, tensors: dict[str, Tensor], group: dist.ProcessGroup, sign: Callable[[], None]
) -> None:
    """Fill `tensors` in place, whatever number of ranks wrote them. Collective.

    `sign` is called after each tensor, in any thread.
    Raises ConfigError for content that can never be read, and TrainError where the disk may be at fault.
    """
    reader = _TensorReader(directory)
    try:
        load(tensors, storage_reader=reader, planner=_SigningPlanner(sign), process_group=group)
    except CheckpointException as error:
        text = f"{directory}: {_describe(reader.problem) if reader.problem else _first_cause(error)}"
        causes = [reader.problem, *(cause for cause, _ in error.failures.values())]
        of_disk = [cause for cause in causes if isinstance(cause, OSError)]
        raise (unreadable(text, of_disk[0]) if of_disk else ConfigError(text)) from None


def written_by(directory: Path, rank: int) -> list[Path]:
    """Return the files that one rank wrote; the first rank also wrote the table of contents."""
    return sorted([*directory.glob(f"__{rank}_*"), *(directory.glob(".metadata") if rank == 0 else ())])


class _StagedPlanner(DefaultSavePlanner):
    """Plans from staged tensors, each of which knows its offsets in the whole one."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report

    def create_local_plan(self) -> SavePlan:
        self.plan = SavePlan([piece.item for piece in self.state_dict.values()], planner_data=self.mappings)
        return self.plan

    def resolve_data(self, write_item: WriteItem) -> Tensor:
        values = self.find_values(write_item)
        self._report(values.nbytes)
        return values

    def find_values(self, write_item: WriteItem) -> Tensor:
        values: Tensor = self.state_dict[write_item.index.fqn].values
        return values


class _SigningPlanner(DefaultLoadPlanner):
    def __init__(self, sign: Callable[[], None]) -> None:
        super().__init__()
        self._sign = sign

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        self._sign()


def share_out(sizes: Sequence[int], shares: int) -> list[list[int]]:
    """Return positions of `sizes` in shares of about the same sum, the largest dealt first; none is empty."""
    dealt: list[list[int]] = [[] for _ in range(min(shares, len(sizes)))]
    loads = [0] * len(dealt)
    for position in sorted(range(len(sizes)), key=lambda at: -sizes[at]):
        share = loads.index(min(loads))
        dealt[share].append(position)
        loads[share] += sizes[position]
    return [sorted(share) for share in dealt if share]


class _TensorWriter(FileSystemWriter):
    """Writes several files at once where there is much to write: one thread is slower than most disks.

    Fails with the cause: torch's own error on a full disk is "unexpected pos 704 vs 598", and an error in one of its
    own writing threads is lost.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, per_thread_copy_ahead=0)  # nothing to copy: staged tensors are on the host

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        write = super().write_data
        try:
            written = run_in_threads([partial(write, part, planner) for part in self._parts(plan, planner)])
        except Exception as error:
            cause: BaseException = error
            while cause.__context__:
                cause = cause.__context__
            raise cause from None
        result: Future[list[WriteResult]] = Future()
        result.set_result([one for part in written for one in part.value()])
        return result

    def _parts(self, plan: SavePlan, planner: SavePlanner) -> list[SavePlan]:
        """Split the plan into one for each file."""
        sizes = [cast(_StagedPlanner, planner).find_values(item).nbytes for item in plan.items]
        shares = share_out(sizes, min(MAX_PARTS, max(1, sum(sizes) // PART_BYTES)))
        if len(shares) < 2:
            return [plan]
        return [
            replace(
                plan,
                items=[plan.items[at] for at in share],
                storage_data=replace(plan.storage_data, prefix=f"{plan.storage_data.prefix}{number}_"),
            )
            for number, share in enumerate(shares)
        ]


class _TensorReader(FileSystemReader):
    """Reads several files at once: torch reads one after the other, in one thread."""

    problem: Exception | None = None  # with the table, of which torch 2.11 would only report that there is none

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        try:
            metadata: Metadata = read_table(Path(self.path))
        except Exception as error:
            self.problem = error
            raise
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        read = super().read_data
        run_in_threads([partial(read, part, planner) for part in self._parts(plan)])
        result: Future[None] = Future()
        result.set_result(None)
        return result

    def _parts(self, plan: LoadPlan) -> list[LoadPlan]:
        """Split the plan into parts of about the same number of bytes; the items of a file stay together."""
        of_file: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            of_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        files = list(of_file.values())
        shares = share_out([sum(item.lengths.numel() for item in items) for items in files], MAX_PARTS)
        return [replace(plan, items=[item for at in share for item in files[at]]) for share in shares]


def _first_cause(error: CheckpointException) -> str:
    rank, (cause, _) = min(error.failures.items())
    return f"rank {rank}: {_describe(cause)}"


def _describe(cause: BaseException) -> str:
    return f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]}"
