"""Checks of this node's GPUs: their number, health, clocks, and other processes on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fsdpctl.contract.findings import Check, Finding, fail, ok, unknown, warn
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.checks import smi
from fsdpctl.node.checks.smi import Gpu

_FIX_TOOL = "install the driver's nvidia-smi, or put it on the PATH of the profile"


def check_gpus(plan: LaunchPlan, env: Mapping[str, str]) -> list[Finding]:
    """Return the findings about the GPUs that the ranks will see; none where ranks run on CPUs."""
    if plan.device == "cpu":
        return []
    try:
        listing = smi.query(env)
    except smi.SmiError as error:
        return [fail(Check.GPUS, str(error), "look for driver errors, `dmesg | grep -i xid`, then reboot the node")]
    if listing is None:
        return without_tool(smi.count_devices(), plan.procs_per_node)
    gpus = listing.visible(env)
    count = judge_count(len(gpus) or smi.count_slices(env), plan.procs_per_node)
    return [count, judge_health(gpus), judge_clocks(gpus), judge_processes(gpus)] if gpus else [count]


def without_tool(devices: int, procs: int) -> list[Finding]:
    """Return the findings without nvidia-smi: a failure if the kernel has too few devices, else unknown."""
    if devices < procs:
        return [judge_count(devices, procs)]
    reason = f"nvidia-smi is not installed; the kernel shows {devices} GPUs"
    return [unknown(check, reason, _FIX_TOOL) for check in (Check.GPUS, Check.GPU_HEALTH, Check.GPU_CLOCKS)]


def judge_count(visible: int, procs: int) -> Finding:
    if visible < procs:
        reason = f"{procs} ranks per node need as many GPUs, but this node shows {visible}"
        return fail(Check.GPUS, reason, "nvidia-smi -L, CUDA_VISIBLE_DEVICES, and `dmesg | grep -i xid` for a lost one")
    return ok(Check.GPUS, f"{visible} GPUs for {procs} ranks")


def judge_health(gpus: Sequence[Gpu]) -> Finding:
    if faults := [f"GPU {gpu.index}: {', '.join(gpu.faults)}" for gpu in gpus if gpu.faults]:
        fix = "drain the node, run `nvidia-smi --gpu-reset` or reboot; replace the GPU if the error comes back"
        return fail(Check.GPU_HEALTH, "; ".join(faults), fix)
    return ok(Check.GPU_HEALTH, "no uncorrectable errors, no reset required")


def judge_clocks(gpus: Sequence[Gpu]) -> Finding:
    """Warn of slow GPUs: one slows all ranks, but the results stay correct."""
    if slow := [f"GPU {gpu.index}: {', '.join(gpu.slowdowns)}" for gpu in gpus if gpu.slowdowns]:
        fix = "check cooling and power: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER`"
        return warn(Check.GPU_CLOCKS, "slowed down: " + "; ".join(slow), fix)
    return ok(Check.GPU_CLOCKS, "not slowed down")


def judge_processes(gpus: Sequence[Gpu]) -> Finding:
    busy = [f"GPU {gpu.index}: pid {one.pid} {one.name} {one.memory}" for gpu in gpus for one in gpu.processes]
    if busy:
        return warn(Check.GPU_PROCESSES, "; ".join(busy), "end them, or leave these GPUs out of CUDA_VISIBLE_DEVICES")
    return ok(Check.GPU_PROCESSES, "no other processes on these GPUs")
