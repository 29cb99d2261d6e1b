"""`python -m train --config FILE`, alone or under torchrun.

Torch takes seconds to import. So signals are handled, and a wrong configuration is reported, before that. The garbage
collector leaves out the 280,000 objects of those imports, and at the end the interpreter is not torn down: together
that is a fifth of the cost of a short run on each rank.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from fsdpctl.contract import GOOD_ENDS
from fsdpctl.contract.paths import DIR_MODE, RunPaths
from fsdpctl.contract.rank_progress import RankProgressWriter, Section
from fsdpctl.contract.records import Outcome
from train.config import load_config
from train.errors import TrainError, unreadable
from train.launch import LaunchEnv
from train.parallel.layout import plan_layout
from train.parallel.rank_info import RankInfo
from train.preempt import Stopper


def main(argv: Sequence[str] | None = None) -> int:
    """Run one rank to its end and return its exit code."""
    arguments = _parse(argv)
    gc.disable()  # `Trainer` decides when to collect
    rank_info, launch = RankInfo.from_env(os.environ), LaunchEnv.from_env(os.environ)
    stop_file = launch.stop_file if rank_info.local_rank == 0 else None
    stopper = Stopper(stop_file, launch.grace_s, launch.preempt_grace_s, launch.abort_file)
    _set_up_logging(rank_info)
    try:
        outcome = _train(arguments, rank_info, launch, stopper)
    except TrainError as error:
        print(f"train: {error}", file=sys.stderr)
        return error.exit_code
    if rank_info.is_main:
        launch.report(outcome)
    return launch.exit_code(outcome)


def _train(arguments: argparse.Namespace, rank_info: RankInfo, launch: LaunchEnv, stopper: Stopper) -> Outcome:
    """Train, and close what was opened, on every way out."""
    trainer = None
    rank = rank_info.rank
    progress = RankProgressWriter(launch.progress_file(rank), work_log=launch.work_log(rank))
    progress.mark(Section.START, 0, "imports")
    with ExitStack() as cleanup:
        try:
            config = load_config(arguments.config)
            paths = RunPaths(arguments.run_dir or launch.run_dir or arguments.config.parent)
            layout = plan_layout(config, rank_info)
            make_run_directory(paths.root)
            from train.context import RankContext
            from train.loop import Trainer
            from train.parallel.world import World

            progress.mark(Section.START, 0, "process groups")
            world = World(rank_info, launch.shared_disk, config.deterministic)
            gc.freeze()  # all that was imported; what comes now is little, and quickly searched
            trainer = Trainer(RankContext(config, layout, paths, launch, world, stopper, progress, cleanup))
            outcome = trainer.run()
            progress.mark(Section.END, trainer.step, "closing files")
            cleanup.close()
            progress.mark(Section.END, trainer.step, "leaving process groups")
            world.close()
        except Exception as error:
            # Before anything is closed: the time of this report shows which rank failed first.
            launch.report_failure(rank, error, trainer.step if trainer else 0)
            raise
    return outcome


def make_run_directory(path: Path) -> None:
    """Make the directory for its owner only, if it does not exist. Raises TrainError."""
    try:
        path.mkdir(DIR_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise unreadable(f"run directory {path}: {error.strerror}", error) from None


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="train", description="Train a language model under FSDP.")
    parser.add_argument("--config", type=Path, required=True, help="JSON or YAML: a trainer configuration or a job")
    parser.add_argument("--run-dir", type=Path, help="default: $FSDPCTL_RUN_DIR, else where the configuration is")
    return parser.parse_args(argv)


def _set_up_logging(rank_info: RankInfo) -> None:
    """Log everything on rank 0, and only warnings on the others."""
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        format="%(asctime)s.%(msecs)03dZ %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
        level=logging.INFO if rank_info.is_main else logging.WARNING,
        stream=sys.stderr,
    )


def leave(code: int) -> NoReturn:
    """End the process; after a good end at once, since all is written and closed then."""
    if code not in GOOD_ENDS:
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main())
