"""sbatch through submitit: its hands, our script. The only import of submitit."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil

from fsdpctl.backends.slurm.environment import job_environment, swapped
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import LaunchError, RefusedError

# The controller may have taken the job before the answer was lost.
_UNCERTAIN = re.compile(r"timed out|timeout|Zero Bytes|Unexpected message|Transport endpoint|reset by peer", re.I)


class UncertainError(LaunchError):
    """sbatch failed, but the job may exist."""


def sbatch(run: RunPaths, script: str) -> str:
    """Submit `script` and return the job's id. Raises RefusedError or UncertainError with Slurm's own line."""
    if shutil.which("sbatch") is None or shutil.which("srun") is None:  # submitit wants srun here, too
        raise RefusedError(
            "sbatch is not on the PATH: this machine is no login node of a Slurm cluster",
            hint="submit there, or look at the plan with --dry-run",
        )
    import submitit

    class Executor(submitit.SlurmExecutor):
        """Sends our text: no pickle, no submitit on the nodes, no --wckey, signals as we want them."""

        def _make_submission_file_text(self, command: str, uid: str) -> str:
            return script

    # submitit prints what sbatch said, and raises it too.
    with swapped(job_environment(os.environ)), contextlib.redirect_stderr(io.StringIO()):
        try:
            return str(Executor(folder=run.root)._submit_command("").job_id)
        except submitit.core.utils.FailedJobError as error:
            said = slurms_line(str(error))
        except submitit.core.utils.FailedSubmissionError as error:  # sbatch succeeded, its answer makes no sense
            raise UncertainError(str(error)) from error
    raise (UncertainError if _UNCERTAIN.search(said) else RefusedError)(f"Slurm does not take the job: {said}")


def slurms_line(stderr: str) -> str:
    """All errors in one line: the first is often the telling one, the last one always there."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()] or ["sbatch failed without a word"]
    errors = [line.removeprefix("sbatch: error: ") for line in lines if "error:" in line]
    return "; ".join(errors or lines[-1:])
