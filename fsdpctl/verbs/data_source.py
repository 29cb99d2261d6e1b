"""Check `trainer.data.source` of a job at submit: wrong data is found now, not after hours in a queue."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fsdpctl.contract.data_url import is_url
from fsdpctl.contract.problems import Problem
from fsdpctl.contract.trainer.trainer_config import BUILTIN
from fsdpctl.errors import FsdpctlError, UsageError
from fsdpctl.launch.build import IncompatibleError
from fsdpctl.specs.job import JobSpec

if TYPE_CHECKING:
    from fsdpctl.contract.formats.dataset import Index


def resolve_data(job: JobSpec, submit_dir: Path, *, is_here: bool) -> JobSpec:
    """Make the source absolute, because ranks start elsewhere, and check it if it is visible here.

    `is_here`: ranks run on this machine. Otherwise the directory may exist on the nodes only.
    """
    trainer = job.trainer
    if trainer is None or trainer.data.source == BUILTIN:
        return job
    from fsdpctl.data.prepared import find_wrong_sizes, open_index  # many jobs use the builtin data

    if is_url(trainer.data.source):
        _check_remote(trainer.data.source, job, is_here=is_here)
        return job

    directory = submit_dir / os.path.expanduser(trainer.data.source)  # noqa: PTH111 - Path's raises without a home
    if is_here or directory.is_dir():
        try:
            index = open_index(directory)
        except UsageError as error:
            raise UsageError(f"trainer.data.source: {error.message}", hint=error.hint) from None
        _check_fit(str(directory), index, job)
        if wrong := find_wrong_sizes(directory, index):
            raise UsageError(
                f"trainer.data.source: {wrong[0]}", hint="prepare it again, or copy it again from an undamaged one"
            )
    data = replace(trainer.data, source=str(directory))
    return job.model_copy(update={"trainer": replace(trainer, data=data)})


def _check_remote(url: str, job: JobSpec, *, is_here: bool) -> None:
    """Check data behind a URL. Where ranks run elsewhere, they may have a package, a network and credentials that this
    machine does not have."""
    from fsdpctl.data.remote import open_remote_index

    try:
        index = open_remote_index(url)
    except FsdpctlError as error:
        if is_here:
            raise type(error)(f"trainer.data.source: {error.message}", hint=error.hint) from None
        return
    _check_fit(url, index, job)


def _check_fit(directory: str, index: Index, job: JobSpec) -> None:
    assert job.trainer is not None
    model = job.trainer.model
    if job.trainer.data.attention == "document" and not index.has_documents:
        text = f"document needs data of several documents, and {directory} is one, without limits in it"
        problem = Problem("trainer.data.attention", text, ("trainer.data.source",))
        raise IncompatibleError(f"job {job.name} does not fit its data", [problem])
    if index.vocab_size > model.vocab_size:
        raise UsageError(
            f"trainer.model.vocab_size is {model.vocab_size}, but {directory} has {index.vocab_size} token ids",
            hint=f"--set trainer.model.vocab_size={index.model_vocab_size}",
        )
    for split, num_tokens in (("training", index.train_tokens), ("validation", index.val_tokens)):
        if num_tokens <= model.seq_len:
            raise UsageError(
                f"{directory}: the {split} split has {num_tokens} tokens, but one sequence takes"
                f" trainer.model.seq_len + 1 = {model.seq_len + 1}"
            )
