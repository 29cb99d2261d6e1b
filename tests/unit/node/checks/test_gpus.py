"""The GPU checks, on a stand-in nvidia-smi: a real program on the PATH that prints what a driver would."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsdpctl.contract.findings import Check, Finding, Result
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.checks import smi
from fsdpctl.node.checks.gpus import check_gpus, without_tool
from fsdpctl.specs.load import parse_job, parse_profile

HEALTHY = """<gpu id="00000000:{n}1:00.0">
 <uuid>GPU-{n}aaaaaaa-7d19</uuid>
 <clocks_event_reasons><clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
 </clocks_event_reasons>
 <gpu_recovery_action>None</gpu_recovery_action>
 <ecc_errors><volatile><sram_uncorrectable_parity>0</sram_uncorrectable_parity>
  <dram_uncorrectable>0</dram_uncorrectable><dram_correctable>7</dram_correctable></volatile></ecc_errors>
 <remapped_rows><remapped_row_pending>No</remapped_row_pending></remapped_rows>
 <fabric><state>Completed</state><status>Success</status></fabric>
 <processes></processes>
</gpu>"""


def plan(procs: int = 2) -> LaunchPlan:
    profile = parse_profile("name: p\nbackend: local\nallow_loopback: true\n", "p")
    job = parse_job(f"name: j\nnodes: 1\nprocs_per_node: {procs}\nentrypoint: {{script: x.py}}\n", "j")
    return build_plan(profile, job, SubmitHost("r", "/runs/r", "/", "python3", tuple("0123456789"[:procs])))


@pytest.fixture
def nvidia_smi(tmp_path: Path) -> Path:
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\ncat "$(dirname "$0")/answer.xml"\n')
    tool.chmod(0o755)
    return tool


def look(tool: Path, *gpus: str, visible: str | None = None, procs: int = 2) -> dict[Check, Finding]:
    body = "".join(gpus)
    (tool.parent / "answer.xml").write_text(
        f"<nvidia_smi_log><driver_version>570.1</driver_version>{body}</nvidia_smi_log>"
    )
    env = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    env |= {"CUDA_VISIBLE_DEVICES": visible} if visible is not None else {}
    return {finding.check: finding for finding in check_gpus(plan(procs), env)}


def gpu(n: int, old: str = "", new: str = "") -> str:
    text = HEALTHY.format(n=n)
    assert old in text
    return text.replace(old, new)


def test_healthy_gpus(nvidia_smi: Path) -> None:
    found = look(nvidia_smi, gpu(0), gpu(1))
    assert {finding.result for finding in found.values()} == {Result.OK}
    assert set(found) == {Check.GPUS, Check.GPU_HEALTH, Check.GPU_CLOCKS, Check.GPU_PROCESSES}


@pytest.mark.parametrize(
    ("old", "new", "check", "result", "reason"),
    [
        ("<dram_uncorrectable>0", "<dram_uncorrectable>3", Check.GPU_HEALTH, Result.FAIL, "GPU 1: 3 uncorrectable"),
        ("pending>No", "pending>Yes", Check.GPU_HEALTH, Result.FAIL, "GPU 1: a remapped memory row waits"),
        ("action>None", "action>Reboot", Check.GPU_HEALTH, Result.FAIL, "GPU 1: the driver asks for recovery: Reboot"),
        ("Completed", "In Progress", Check.GPU_HEALTH, Result.FAIL, "GPU 1: NVLink fabric: In Progress"),
        ("hw_slowdown>Not Active", "hw_slowdown>Active", Check.GPU_CLOCKS, Result.WARN, "GPU 1: hw_slowdown"),
        (
            "<processes>",
            "<processes><process_info><pid>77</pid><type>C</type><process_name>python</process_name>"
            "<used_memory>5 MiB</used_memory></process_info>",
            Check.GPU_PROCESSES,
            Result.WARN,
            "GPU 1: pid 77 python 5 MiB",
        ),
    ],
)
def test_a_faulty_gpu_is_named(nvidia_smi: Path, old: str, new: str, check: Check, result: Result, reason: str) -> None:
    found = look(nvidia_smi, gpu(0), gpu(1, old, new))
    assert found.pop(check).result is result
    assert {finding.result for finding in found.values()} == {Result.OK}
    assert reason in look(nvidia_smi, gpu(0), gpu(1, old, new))[check].reason
    assert look(nvidia_smi, gpu(0), gpu(1, old, new), visible="0", procs=1)[check].result is Result.OK, "not visible"


def test_the_throttle_entries_of_older_drivers_are_read(nvidia_smi: Path) -> None:
    old = gpu(0).replace("clocks_event_reason", "clocks_throttle_reason").replace("Not Active", "Active")
    assert look(nvidia_smi, old, gpu(1))[Check.GPU_CLOCKS].result is Result.WARN


def test_a_desktop_is_not_a_compute_process(nvidia_smi: Path) -> None:
    desktop = "<processes><process_info><pid>7</pid><type>G</type></process_info>"
    assert look(nvidia_smi, gpu(0), gpu(1, "<processes>", desktop))[Check.GPU_PROCESSES].result is Result.OK


def test_a_missing_gpu(nvidia_smi: Path) -> None:
    found = look(nvidia_smi, gpu(0))
    assert found[Check.GPUS].result is Result.FAIL
    assert "2 ranks per node need as many GPUs, but this node shows 1" in found[Check.GPUS].reason
    assert look(nvidia_smi, gpu(0), gpu(1), visible="GPU-1aaa", procs=1)[Check.GPUS].result is Result.OK
    assert look(nvidia_smi, gpu(0), gpu(1), visible="1,5")[Check.GPUS].result is Result.FAIL


def test_mig_slices_are_only_counted(nvidia_smi: Path) -> None:
    found = look(nvidia_smi, gpu(0), visible="MIG-1f,MIG-2f")
    assert {check: finding.result for check, finding in found.items()} == {Check.GPUS: Result.OK}
    assert look(nvidia_smi, gpu(0), visible="MIG-1f")[Check.GPUS].result is Result.FAIL
    assert set(look(nvidia_smi, gpu(0), visible="")) == {Check.GPUS}


def test_a_failing_driver_is_a_failure(nvidia_smi: Path) -> None:
    nvidia_smi.write_text("#!/bin/sh\necho 'Unable to determine the device handle for GPU0000:3B:00.0'\nexit 255\n")
    (failure,) = check_gpus(plan(), {"PATH": f"{nvidia_smi.parent}:{os.environ['PATH']}"})
    assert (failure.check, failure.result) == (Check.GPUS, Result.FAIL)
    assert "nvidia-smi ends with 255: Unable to determine the device handle" in failure.reason


def test_a_hanging_driver_is_a_failure(nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smi, "ANSWER_S", 0.2)
    nvidia_smi.write_text("#!/bin/sh\nexec sleep 60\n")
    (failure,) = check_gpus(plan(), {"PATH": f"{nvidia_smi.parent}:{os.environ['PATH']}"})
    assert failure.result is Result.FAIL
    assert "does not answer" in failure.reason


def test_a_missing_tool_is_never_ok(tmp_path: Path) -> None:
    assert {finding.result for finding in without_tool(devices=2, procs=2)} == {Result.UNKNOWN}
    (failure,) = check_gpus(plan(), {"PATH": str(tmp_path)})
    assert failure.result is Result.FAIL, "neither tool nor device"


def test_devices_are_counted_without_the_tool(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert smi.count_devices(tmp_path) == 2
