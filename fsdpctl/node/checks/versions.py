"""The versions that the ranks will use: from the profile's own python, in the environment of the ranks."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from fsdpctl.contract.findings import Check, Finding, Versions, fail, ok, warn

IMPORT_S = 60.0
"""Seconds for an import of torch from a cold network disk."""

# Must run in a python of any version; importing torch may print, fail to find a library, or end the process.
_ASK = """
import gc, json, os, platform, sys
gc.disable()  # a third of the time of the import
found = {"python": platform.python_version()}
try:
    import torch
    found["torch"], found["cuda"] = str(torch.__version__), torch.version.cuda
    try:
        found["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    except Exception:
        pass  # a build without NCCL
    specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
    kept = [spec.cached for spec in specs if getattr(spec, "cached", None)]
    found["byte_code"] = [sum(map(os.path.exists, kept)), len(kept)]
except Exception as error:
    found["problem"] = "%s: %s" % (type(error).__name__, error)
print("\\n" + json.dumps(found), flush=True)
os._exit(0)  # to take torch down would cost another half a second
"""


def read_versions(python: str, env: Mapping[str, str]) -> tuple[Versions, list[Finding]]:
    """Return the versions and the findings. A python that does not exist is reported by the node check."""
    if (program := shutil.which(python, path=env.get("PATH"))) is None:
        return Versions(driver=read_driver()), []
    driver = read_driver()
    try:
        done = subprocess.run(
            [program, "-c", _ASK],
            env={**env, "PYTHONSAFEPATH": "1"},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=IMPORT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        slow = f"{program} has not imported torch within {IMPORT_S:.0f} s, and a rank would wait as long"
        return Versions(driver=driver), [
            fail(Check.TORCH, slow, "check the load of the node and of the disk with torch")
        ]
    except OSError as error:
        return Versions(driver=driver), [_no_torch(f"{program}: {error.strerror}")]
    try:
        found = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):  # the import ended the process
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        return Versions(driver=driver), [_no_torch(f"{program}: exit code {done.returncode}: {last[0]}")]
    problem, byte_code = found.pop("problem", None), found.pop("byte_code", None)
    findings = [_no_torch(f"{program}: {problem}")] if problem else []
    return Versions(**found, driver=driver), findings + ([judge_byte_code(*byte_code)] if byte_code else [])


def judge_byte_code(kept: int, modules: int) -> Finding:
    """Judge how many modules have cached byte code after an import of torch.

    Images often forbid writing it: then torchrun and each rank compile thousands of modules at every start.
    """
    if kept >= 0.9 * modules:
        return ok(Check.BYTE_CODE, f"{kept:,} of {modules:,} modules that come with torch have cached byte code")
    reason = f"{modules - kept:,} of {modules:,} modules that come with torch are compiled again at every start"
    fix = (
        "unset PYTHONDONTWRITEBYTECODE; where site-packages is read-only run `python -m compileall` over it while the"
        " image is built, or set PYTHONPYCACHEPREFIX under `env` to a directory on the node's own disk"
    )
    return warn(Check.BYTE_CODE, reason, fix)


def read_driver(version: Path = Path("/sys/module/nvidia/version")) -> str | None:
    """Return the version of the loaded kernel driver, which differs from the installed one before a reboot."""
    try:
        return version.read_text().strip()
    except OSError:
        return None


def _no_torch(reason: str) -> Finding:
    return fail(Check.TORCH, f"torch cannot be imported: {reason}", "install torch there, or set `venv` in the profile")
