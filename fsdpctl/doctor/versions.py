"""Compare the versions of Python, torch, CUDA, NCCL and the driver between nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from fsdpctl.contract.findings import Check, Finding, Versions, fail, most_common, ok, unknown, warn
from fsdpctl.contract.plan import Device

_FIX = "install the same versions on every node: one `venv` on a shared disk, or the same image"


def compare_versions(versions: Mapping[int, Versions], device: Device) -> dict[int, list[Finding]]:
    """Compare each version with that of most nodes, or with the head's where there is no majority."""
    found: dict[int, list[Finding]] = {rank: [] for rank in versions}
    for name in (field.name for field in fields(Versions)):
        # Without torch there is no CUDA or NCCL to compare, and the node's own check has reported that already.
        asked = [r for r, v in versions.items() if (v.python if name in ("python", "driver") else v.torch) is not None]
        values = {rank: getattr(versions[rank], name) for rank in asked}
        if device == "cpu" and not any(values.values()):
            continue
        usual = most_common(list(values.values())) if values else None
        for rank, value in values.items():
            found[rank].append(_version_finding(Check(name), value, usual, len(values)))
    return found


def _version_finding(check: Check, value: str | None, usual: str | None, num_nodes: int) -> Finding:
    if value == usual:
        if value is None and check is Check.CUDA:
            return fail(check, "torch is built without CUDA", "install the CUDA build of torch")
        if value is None:
            return unknown(check, "not reported by this build of torch or this driver")
        return ok(check, value)
    reason = f"{check} {value or 'none'}, but {usual or 'none'} on {'the head' if num_nodes == 2 else 'the others'}"
    harmless = check is Check.DRIVER or (check is Check.PYTHON and _minor(value) == _minor(usual))
    return (warn if harmless else fail)(check, reason, _FIX)


def _minor(version: str | None) -> str:
    return (version or "").rpartition(".")[0]
