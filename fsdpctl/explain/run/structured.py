"""The category of a failure from values: classes of exceptions, error numbers, signals, causes. Pure."""

from __future__ import annotations

import errno
import signal
from collections.abc import Mapping

from fsdpctl.contract import Cause, RankFailure
from fsdpctl.contract.records import RankError, Resources
from fsdpctl.explain.categories import Category, Domain

SHM_FULL = 2**20
"""Free bytes of /dev/shm below which it counts as full."""

GENERIC = (Category.RUNTIME_ERROR, Category.EXCEPTION, Category.EXIT_CODE, Category.SIGNAL)
"""Categories that a rule for the text of the failure refines."""

_KINDS: Mapping[str, Category] = {
    "OutOfMemoryError": Category.CUDA_OOM,
    "AcceleratorError": Category.CUDA_ERROR,
    "DistBackendError": Category.NCCL,
    "DistNetworkError": Category.RENDEZVOUS,
    "DistStoreError": Category.RENDEZVOUS,
    "RendezvousError": Category.RENDEZVOUS,
    "KeyboardInterrupt": Category.SIGNAL,
    "MemoryError": Category.RAM_OOM,
    "FileNotFoundError": Category.FILE_NOT_FOUND,
    "NotADirectoryError": Category.FILE_NOT_FOUND,
    "PermissionError": Category.PERMISSION,
    "ImportError": Category.MISSING_MODULE,
    "ZeroDivisionError": Category.DIVISION_BY_ZERO,
    "AssertionError": Category.ASSERTION,
}
_ERRNOS = {
    errno.ENOSPC: Category.DISK_FULL,
    errno.EDQUOT: Category.DISK_FULL,
    errno.ENOMEM: Category.RAM_OOM,
    errno.ESTALE: Category.STORAGE,
    errno.EIO: Category.STORAGE,
}
_CAUSES = {
    Cause.STOP: Category.CANCELLED,
    Cause.CANCEL: Category.CANCELLED,
    Cause.TIME_LIMIT: Category.TIME_LIMIT,
    Cause.PREEMPTION: Category.PREEMPTION,
    Cause.REQUEUE: Category.PREEMPTION,
    Cause.EXCEPTION: Category.EXCEPTION,
    Cause.CONFIGURATION: Category.CONFIGURATION,
    Cause.TORCHRUN: Category.RENDEZVOUS,
    Cause.HANG: Category.HANG,
    Cause.NODE_CHECK: Category.NODE_FAILURE,
    Cause.PACKAGE: Category.MISSING_MODULE,
    Cause.SETUP: Category.CONFIGURATION,
    Cause.JOIN: Category.RENDEZVOUS,
    Cause.START: Category.SCHEDULER,
    Cause.AGENT: Category.NODE_FAILURE,
    Cause.LOST: Category.NODE_FAILURE,
}
_INFRASTRUCTURE = (
    Category.NCCL,
    Category.GLOO,
    Category.DISK_FULL,
    Category.STORAGE,
    Category.NETWORK,
    Category.RENDEZVOUS,
    Category.TIME_LIMIT,
    Category.PREEMPTION,
    Category.NODE_FAILURE,
    Category.SCHEDULER,
)
_UNKNOWN = (
    Category.CUDA_ERROR,
    Category.SEGFAULT,
    Category.HANG,
    Category.CANCELLED,
    Category.SIGNAL,
    Category.UNKNOWN,
)
_RETRIED = (*_INFRASTRUCTURE, Category.CUDA_ERROR, Category.HANG, Category.SIGNAL)


def domain_of(category: Category) -> Domain:
    """Return whose matter a category is, where no rule is more precise."""
    if category in _INFRASTRUCTURE:
        return Domain.INFRASTRUCTURE
    return Domain.UNKNOWN if category in _UNKNOWN else Domain.WORKLOAD


def may_retry(category: Category) -> bool:
    """Return whether another attempt may succeed without a change, where no rule is more precise."""
    return category in _RETRIED and category is not Category.DISK_FULL


def of_cause(cause: Cause | None) -> Category | None:
    """Return the category of an end that no rank reports; None for the failure of a rank."""
    return None if cause is None else _CAUSES.get(cause)


def of_node(cause: Cause | None, resources: Resources | None) -> Category | None:
    """Return the category of an end that a whole node caused: agents and torchrun run out of memory and disk, too."""
    if resources is not None:
        kills = (resources.oom_kills, resources.host_oom_kills if cause is Cause.AGENT else None)
        if cause in (Cause.AGENT, Cause.TORCHRUN) and any(kills):
            return Category.OOM_KILLER
        if cause in (Cause.AGENT, Cause.TORCHRUN, Cause.NODE_CHECK) and resources.is_disk_full:
            return Category.DISK_FULL
    return of_cause(cause)


def of_error(error: RankError) -> Category:
    """Return the category of an error record: by its error number, then by its most specific class that has one."""
    if error.expected and error.cause is Cause.CONFIGURATION:
        return Category.CONFIGURATION
    if error.errno in _ERRNOS:
        return _ERRNOS[error.errno]
    kinds = error.kinds or (error.message.partition(":")[0],)  # records of older versions have the text only
    for kind in kinds:
        if kind in _KINDS:
            return _KINDS[kind]
    if error.failure is RankFailure.EXIT_CODE:
        return Category.EXIT_CODE
    return Category.RUNTIME_ERROR if "RuntimeError" in kinds else Category.EXCEPTION


def of_exit(code: int, resources: Resources | None) -> Category:
    """Return the category of a rank that left no record but its exit code."""
    if code >= 0:
        return Category.EXIT_CODE
    if -code == signal.SIGKILL and resources is not None and (resources.oom_kills or resources.host_oom_kills):
        return Category.OOM_KILLER
    if -code == signal.SIGBUS and resources is not None and _is_full(resources.shm_free):
        return Category.RAM_OOM
    return Category.SEGFAULT if -code == signal.SIGSEGV else Category.SIGNAL


def _is_full(free: int | None) -> bool:
    return free is not None and free < SHM_FULL
