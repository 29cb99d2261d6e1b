"""When torch's compiler works: in the first step, and again for what it has not seen yet."""

from __future__ import annotations

import sys

from fsdpctl.contract.work_log import WorkLog


def record_compiling(work_log: WorkLog) -> None:
    """Record each time in which the compiler works from now on; nothing where it was not imported."""
    if "torch._dynamo" not in sys.modules:
        return
    from torch._dynamo.callback import callback_handler

    callback_handler.register_start_callback(lambda *_: work_log.begin_compiling())
    callback_handler.register_end_callback(lambda *_: work_log.end_compiling())
