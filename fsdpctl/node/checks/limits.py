"""Checks of limits that the ranks inherit from this process: locked memory, open files, shared memory."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from fsdpctl.contract.findings import Check, Finding, fail, ok, warn
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.checks.network import has_infiniband

MIN_MEMLOCK = 64 * 2**20
MIN_NOFILE = 1024
GOOD_NOFILE = 4096
SHM_PER_GPU_RANK = 64 * 2**20
"""For NCCL's segments and a data loader's queues; a container's /dev/shm has 64 MiB in all by default."""
SHM_PER_CPU_RANK = 16 * 2**20

_FIX_SHM = "a larger /dev/shm: `docker run --shm-size=...` or `--ipc=host`, or a larger tmpfs; remove old nccl-* files"


def check_limits(plan: LaunchPlan) -> list[Finding]:
    shm = Path("/dev/shm")
    space = os.statvfs(shm) if shm.is_dir() else None
    return [
        judge_memlock(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0], plan.device == "cuda" and has_infiniband()),
        judge_nofile(resource.getrlimit(resource.RLIMIT_NOFILE)[0], len(plan.nodes) > 1 and plan.device == "cuda"),
        judge_shm(space.f_bavail * space.f_frsize if space else 0, plan.procs_per_node, plan.device == "cuda"),
    ]


def judge_memlock(limit: int, needs_rdma: bool) -> Finding:
    """Judge the limit of locked memory: InfiniBand pins what it sends, and registration fails beyond the limit."""
    if limit == resource.RLIM_INFINITY:
        return ok(Check.MEMLOCK, "unlimited")
    reason = f"locked memory is limited to {limit // 2**10:,} KiB"
    fix = (
        "`memlock unlimited` in limits.conf and LimitMEMLOCK=infinity for sshd or slurmd; in docker --ulimit memlock=-1"
    )
    if not needs_rdma:
        return ok(Check.MEMLOCK, f"{reason}; nothing here uses InfiniBand")
    judge = fail if limit < MIN_MEMLOCK else warn
    return judge(Check.MEMLOCK, f"{reason}, and InfiniBand pins what it sends", fix)


def judge_nofile(limit: int, many: bool) -> Finding:
    reason = f"{limit:,} open files"
    fix = "`nofile 1048576` in limits.conf, LimitNOFILE= for sshd or slurmd, or `ulimit -n` under `setup`"
    if limit == resource.RLIM_INFINITY or limit >= (GOOD_NOFILE if many else MIN_NOFILE):
        return ok(Check.NOFILE, "unlimited" if limit == resource.RLIM_INFINITY else reason)
    judge = fail if limit < MIN_NOFILE // 4 else warn
    return judge(Check.NOFILE, f"only {reason}; connections and data loaders need more", fix)


def judge_shm(free: int, procs: int, has_gpus: bool) -> Finding:
    reason = f"{free // 2**20:,} MiB are free in /dev/shm"
    needed = procs * (SHM_PER_GPU_RANK if has_gpus else SHM_PER_CPU_RANK)
    if free >= needed:
        return ok(Check.SHM, reason)
    judge = fail if has_gpus and free < needed // 4 else warn
    return judge(Check.SHM, f"{reason}; {procs} ranks need {needed // 2**20:,} MiB", _FIX_SHM)
