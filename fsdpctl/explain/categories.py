"""The values by which a failure is classified: what failed, whose fault it is, and what part it had."""

from __future__ import annotations

from enum import StrEnum


class Category(StrEnum):
    """What kind of failure it is. The rule's id is more precise; these are few, for machines and tables."""

    CUDA_OOM = "cuda_oom"
    NCCL = "nccl"
    GLOO = "gloo"
    CUDA_ERROR = "cuda_error"  # a GPU, its driver, a kernel or a CUDA library
    RAM_OOM = "ram_oom"  # an allocation of host memory or shared memory was refused
    OOM_KILLER = "oom_killer"  # a process was killed for its host memory
    SEGFAULT = "segfault"
    FILE_NOT_FOUND = "file_not_found"
    PERMISSION = "permission"
    MISSING_MODULE = "missing_module"  # or a shared library
    DISK_FULL = "disk_full"
    STORAGE = "storage"  # a file server or a disk fails
    NETWORK = "network"  # names, SSH, downloads
    RENDEZVOUS = "rendezvous"  # ranks do not find each other
    DEVICE_MISMATCH = "device_mismatch"
    DIVISION_BY_ZERO = "division_by_zero"
    NAN = "nan"
    ASSERTION = "assertion"
    HANG = "hang"
    TIME_LIMIT = "time_limit"
    PREEMPTION = "preemption"
    NODE_FAILURE = "node_failure"
    SCHEDULER = "scheduler"  # it could not start the job
    CANCELLED = "cancelled"  # a person, or a signal that asks to end
    CONFIGURATION = "configuration"  # arguments or settings were refused, or a setup line failed
    SIGNAL = "signal"  # of a sender that is not known
    EXIT_CODE = "exit_code"  # it left by itself and recorded no reason
    RUNTIME_ERROR = "runtime_error"
    EXCEPTION = "exception"
    UNKNOWN = "unknown"


class Domain(StrEnum):
    """Where to change something."""

    WORKLOAD = "workload"  # the script, its data, its configuration
    INFRASTRUCTURE = "infrastructure"  # nodes, GPUs, network, disks, the scheduler
    UNKNOWN = "unknown"


class Role(StrEnum):
    """The part of a failure among those of all ranks."""

    INITIATING = "initiating"
    CASCADE = "cascade"  # it follows from the failure of another rank
    TEARDOWN = "teardown"  # it was ended because the job had failed
