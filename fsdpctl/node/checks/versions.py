"""The versions that the ranks will meet: asked of the profile's own python, in the environment of the ranks."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from fsdpctl.contract.check import Check, Finding, Versions, fail

IMPORT_S = 60.0
"""torch from a cold network disk."""

# Runs in a python of any version; torch's import may print, fail to find a library, or end the process.
_ASK = """
import json, platform
found = {"python": platform.python_version()}
try:
    import torch
    found["torch"], found["cuda"] = str(torch.__version__), torch.version.cuda
    try:
        found["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    except Exception:
        pass  # a build without NCCL
except Exception as error:
    found["problem"] = "%s: %s" % (type(error).__name__, error)
print("\\n" + json.dumps(found))
"""


def read_versions(python: str, env: Mapping[str, str]) -> tuple[Versions, list[Finding]]:
    """The versions, and what stood in the way. A python that does not exist is the node check's to say."""
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
            fail(Check.TORCH, slow, "look at the disk that torch lies on, and at the load")
        ]
    except OSError as error:
        return Versions(driver=driver), [_no_torch(f"{program}: {error.strerror}")]
    try:
        found = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):  # the import ended the process
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        return Versions(driver=driver), [_no_torch(f"{program}: exit code {done.returncode}: {last[0]}")]
    problem = found.pop("problem", None)
    return Versions(**found, driver=driver), [_no_torch(f"{program}: {problem}")] if problem else []


def read_driver(version: Path = Path("/sys/module/nvidia/version")) -> str | None:
    """The loaded kernel driver, which is what counts after an upgrade without a reboot."""
    try:
        return version.read_text().strip()
    except OSError:
        return None


def _no_torch(reason: str) -> Finding:
    return fail(Check.TORCH, f"torch cannot be imported: {reason}", "install torch there, or set `venv` in the profile")
