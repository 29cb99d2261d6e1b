"""The job of a hold, on its first node: keep the nodes until the hold ends, with a keeper on each.

python -m fsdpctl.backends.slurm.job.hold HOLD_DIR
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from fsdpctl.backends.slurm.job.scontrol import expand_hosts
from fsdpctl.backends.slurm.job.srun import keeper_argv, step_env
from fsdpctl.contract.codec import read_json, write_json
from fsdpctl.contract.paths import HoldPaths
from fsdpctl.holds.decide import ends_at
from fsdpctl.holds.record import Held, Hold
from fsdpctl.holds.use import read_use

LOOK_S = 5.0


def main(hold: HoldPaths) -> None:
    """Return when the hold has ended, by its time, without a run for too long, or because it was deleted."""
    os.umask(0o077)
    record = read_json(Hold, hold.record)
    nodes = expand_hosts(os.environ["SLURM_JOB_NODELIST"])
    held = Held(time.time(), nodes, nodes, os.environ["SLURM_JOB_ID"])
    write_json(hold.held, held)
    keepers = subprocess.Popen(keeper_argv(hold, len(nodes)), env=step_env(os.environ), stdin=subprocess.DEVNULL)
    end = time.time() + LOOK_S
    while time.time() < end:
        time.sleep(LOOK_S)
        try:
            end = ends_at(record, held, read_use(hold)) if hold.record.exists() else 0.0
        except OSError as error:  # a disk that does not answer now
            print(f"asks again: {error}", flush=True)
            end = held.since + record.time_s
    print("the hold has ended", flush=True)
    keepers.kill()
    keepers.wait()


if __name__ == "__main__":
    main(HoldPaths(Path(sys.argv[1])))
