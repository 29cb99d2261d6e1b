"""When a rank is late: how long it may go without a sign of progress in what it is doing. Pure.

The bundled trainer reports steps, sequences, batches, bytes and phases. Where nothing is known yet about how long
something takes, the processor time of a rank counts, too. docs/hangs.md has the same as a table.
"""

from __future__ import annotations

from fsdpctl.contract.node_report import Activity, RankReport
from fsdpctl.contract.plan import HangLimits
from fsdpctl.contract.rank_progress import Section

SLOW_FACTOR = 3.0
SCRIPT_S = 600.0
"""For a user's script that reports nothing: without output, processor time, reads and writes."""
REPORTED_SCRIPT_S = 60.0
"""For one that reports its steps: it may do anything between two of them."""
FIRST_S = 120.0
"""For a start and a first step or evaluation, in which ranks wait for others or the GPU: communicators and kernels are
made. A resumed model compiles, with a forward and a backward pass, while its checkpoint is read."""
STOPPED = 0.5
"""The part of a limit for a stopped process: that it makes no progress is certain, and only its end is not."""
EARLY = 0.6
"""The part of its limit after which the stack of a rank is read, to be there when the limit is over, or to know by then
that the rank does not answer."""
LOOK_S = 30.0
"""When the stack of a rank that reports nothing is read."""
_VARIES = (Section.START, Section.SAVE, Section.END, Section.SCRIPT)
"""Sections in which a rank may work for long without a sign of progress."""
_FIRST_IS_SLOW = (Section.START, Section.STEP, Section.EVALUATE)


def is_overdue(rank: RankReport, limits: HangLimits) -> bool:
    """Return whether a rank has made no progress for longer than it may."""
    if rank.ended_s is not None or rank.state == "t":  # t: someone looks at it with a debugger
        return False
    return age_s(rank) > limit_s(rank, limits)


def age_s(rank: RankReport) -> float:
    """Return the seconds since the last sign of progress, or of life where a rank reports no progress."""
    if rank.progress is None and rank.activity is not Activity.PEERS:
        return min(rank.sign_s, rank.idle_s)
    return rank.sign_s


def is_blocking(rank: RankReport, limits: HangLimits) -> bool:
    """Return whether a rank is late for a reason of its own: others wait for it, and it waits for none of them."""
    if not is_overdue(rank, limits):
        return False
    if rank.state in ("T", "D"):
        return True
    if rank.progress is None and limits.script_s is None:
        return False  # nothing is known about what a user's script does
    is_in_data = rank.progress is not None and rank.progress.section is Section.DATA
    return is_in_data or rank.activity is Activity.WORKING


def limit_s(rank: RankReport, limits: HangLimits) -> float:
    """Return the seconds that a rank may go without a sign of progress."""
    progress = rank.progress
    if rank.state == "T":
        return STOPPED * limits.step_s
    if rank.activity is Activity.COMPILING or _is_working(rank, limits):
        return limits.start_s
    if progress is None:
        limit = SCRIPT_S if limits.script_s is None else limits.script_s
    elif progress.section is Section.DATA:
        limit = max(SLOW_FACTOR * progress.usual_s, limits.data_s)
    else:
        least = limits.script_s or REPORTED_SCRIPT_S if progress.section is Section.SCRIPT else limits.step_s
        limit = max(SLOW_FACTOR * progress.usual_s, least)
        if rank.activity is Activity.PEERS and not progress.usual_s and progress.section in _FIRST_IS_SLOW:
            limit = max(limit, FIRST_S)
    return max(limit, limits.disk_s) if rank.state == "D" else limit


def is_worth_a_look(rank: RankReport, limits: HangLimits) -> bool:
    """Return whether the stack of a rank should be read: it seems late, or may be what the others wait for."""
    if not rank.is_up or rank.ended_s is not None:
        return False
    if rank.progress is None:
        return rank.sign_s > min(LOOK_S, EARLY * (limits.script_s or LOOK_S))
    return rank.sign_s > EARLY * max(SLOW_FACTOR * rank.progress.usual_s, limits.step_s)


def _is_working(rank: RankReport, limits: HangLimits) -> bool:
    """Return whether a rank does something that may take long, and uses the processor or the disk for it."""
    progress = rank.progress
    if progress is None or rank.activity is Activity.PEERS or rank.idle_s > limits.step_s:
        return False
    return progress.section in _VARIES or (progress.section is not Section.DATA and not progress.usual_s)
