"""The GPUs of this node: how many, how healthy, and who else is on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fsdpctl.contract.findings import Check, Finding, fail, ok, unknown, warn
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.checks import smi
from fsdpctl.node.checks.smi import Gpu

_FIX_TOOL = "install the driver's nvidia-smi, or put it on the PATH of the profile"


def check_gpus(plan: LaunchPlan, env: Mapping[str, str]) -> list[Finding]:
    """Nothing to say where ranks run on CPUs."""
    if plan.device == "cpu":
        return []
    try:
        listing = smi.query(env)
    except smi.NoAnswer as error:
        return [fail(Check.GPUS, str(error), "the driver is not well: `dmesg | grep -i xid`, then reboot the node")]
    if listing is None:
        return without_tool(smi.count_devices(), plan.procs_per_node)
    gpus = listing.visible(env)
    count = judge_count(len(gpus) or smi.count_slices(env), plan.procs_per_node)
    return [count, judge_health(gpus), judge_clocks(gpus), judge_processes(gpus)] if gpus else [count]


def without_tool(devices: int, procs: int) -> list[Finding]:
    """A missing tool proves nothing but for devices that the kernel does not have either."""
    if devices < procs:
        return [judge_count(devices, procs)]
    said = f"nvidia-smi is not there; the kernel shows {devices} GPUs"
    return [unknown(check, said, _FIX_TOOL) for check in (Check.GPUS, Check.GPU_HEALTH, Check.GPU_CLOCKS)]


def judge_count(visible: int, procs: int) -> Finding:
    if visible < procs:
        reason = f"{procs} ranks a node need as many GPUs, but this node shows {visible}"
        return fail(Check.GPUS, reason, "nvidia-smi -L, CUDA_VISIBLE_DEVICES, and `dmesg | grep -i xid` for a lost one")
    return ok(Check.GPUS, f"{visible} GPUs for {procs} ranks")


def judge_health(gpus: Sequence[Gpu]) -> Finding:
    if troubles := [f"GPU {gpu.index}: {', '.join(gpu.troubles)}" for gpu in gpus if gpu.troubles]:
        fix = "take the node out, `nvidia-smi --gpu-reset` or a reboot; replace the GPU when it comes back"
        return fail(Check.GPU_HEALTH, "; ".join(troubles), fix)
    return ok(Check.GPU_HEALTH, "no uncorrectable errors, no reset wanted")


def judge_clocks(gpus: Sequence[Gpu]) -> Finding:
    """A slow GPU slows all ranks, but the run is right: no reason to refuse it."""
    if slow := [f"GPU {gpu.index}: {', '.join(gpu.slowdowns)}" for gpu in gpus if gpu.slowdowns]:
        fix = "look at cooling and power: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER`"
        return warn(Check.GPU_CLOCKS, "slowed down: " + "; ".join(slow), fix)
    return ok(Check.GPU_CLOCKS, "not slowed down")


def judge_processes(gpus: Sequence[Gpu]) -> Finding:
    busy = [f"GPU {gpu.index}: pid {one.pid} {one.name} {one.memory}" for gpu in gpus for one in gpu.processes]
    if busy:
        return warn(Check.GPU_PROCESSES, "; ".join(busy), "end them, or leave these GPUs out of CUDA_VISIBLE_DEVICES")
    return ok(Check.GPU_PROCESSES, "nobody else computes there")
