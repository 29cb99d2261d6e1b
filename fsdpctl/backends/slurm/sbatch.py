"""Run sbatch through submitit, with fsdpctl's own script. The only import of submitit."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
from pathlib import Path

from fsdpctl.backends.slurm.environment import job_environment, swapped
from fsdpctl.errors import LaunchError, NoSlotError, RefusedError
from fsdpctl.schema.problems import shorten

# The controller may have accepted the job before the answer was lost.
_UNCERTAIN = re.compile(r"timed out|timeout|Zero Bytes|Unexpected message|Transport endpoint|reset by peer", re.I)


# Not any "job 7": a site's banner may come before it.
_SUBMITTED = re.compile(r"^Submitted batch job (\d+)\b", re.MULTILINE)


# The limits of an association or QOS on submitted jobs, and MaxJobCount of the cluster, after sbatch's own tries.
_AT_LIMIT = re.compile(r"\b(Assoc|QOS)\w*Submit\w*Limit\b|Resource temporarily unavailable")


FOUND_WITHIN_S = 20.0
"""How long the job of an sbatch without an answer may take to appear in the queue."""


class UncertainError(LaunchError):
    """sbatch failed, but the job may exist."""


def sbatch(folder: Path, script: str) -> str:
    """Submit `script` and return the job's id. Raise RefusedError or UncertainError with Slurm's own message."""
    if shutil.which("sbatch") is None or shutil.which("srun") is None:  # submitit wants srun here, too
        raise RefusedError(
            "sbatch is not on the PATH: this machine is no login node of a Slurm cluster",
            hint="submit there, or look at the plan with --dry-run",
        )
    import submitit

    class Executor(submitit.SlurmExecutor):
        """Sends `script` as it is: no pickle, no submitit on the nodes, no --wckey, no signal options of submitit."""

        def _make_submission_file_text(self, command: str, uid: str) -> str:
            return script

        @staticmethod
        def _get_job_id_from_submission_command(string: bytes | str) -> str:
            return parse_job_id(string if isinstance(string, str) else string.decode(errors="replace"))

    # submitit prints the message of sbatch, and raises it too.
    with swapped(job_environment(os.environ)), contextlib.redirect_stderr(io.StringIO()):
        try:
            return str(Executor(folder=folder)._submit_command("").job_id)
        except submitit.core.utils.FailedJobError as error:
            message = error_line(str(error))
    if _AT_LIMIT.search(message):
        raise NoSlotError(
            f"Slurm accepts no more jobs of this user now: {message}", hint="--wait-for-slot waits until one has ended"
        )
    raise (UncertainError if _UNCERTAIN.search(message) else RefusedError)(f"Slurm does not accept the job: {message}")


def parse_job_id(output: str) -> str:
    """Return the job's id from what sbatch printed. Raise UncertainError: it succeeded, so there may be a job."""
    if not (found := _SUBMITTED.findall(output)):
        raise UncertainError(f"sbatch answered without a job id: {shorten(output)}")
    return str(found[-1])


def error_line(stderr: str) -> str:
    """Return all errors of sbatch in one line: often the first gives the cause; the last one is always there."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()] or ["sbatch failed without a message"]
    errors = [line for line in lines if "error:" in line] or [line for line in lines if line.startswith("sbatch: ")]
    return "; ".join(line.removeprefix("sbatch: ").removeprefix("error: ") for line in errors or lines[-1:])
