"""A cheap test that almost every line of a log fails: whether a rule could fit it.

A rule whose texts contain none of these fragments fits nothing; a test compares all logs with and without this.
"""

from __future__ import annotations

import re
from functools import lru_cache

_FRAGMENTS = """
error, exception, fail, kill, abort, fatal, signal, sigseg, sigterm, sigfpe, sigbus, cancel, time, limit, deadline,
preempt, evict, spot, interrupt, ^c, exit, terminat, closing, memory, oom, alloc, xid, assert, nvml, ncclsuccess,
watchdog, socket, cause, cannot, could, can't, unable, ssh, key, closed, librar, symbol, floating, quota, stale, nfs,
endpoint, lustre, blk_, denied, permit, read-only, chdir, infinit, finite, segfault, segmentation, thread, fork, mpi_,
revoked, requeued, support, exceeded, what(), resource, offline, diverge, scale, zip, empty, unpickl, resp, refused,
pipe, duplicate, network, out_of, sent, version, module, corrupt, invalid, illegal, heartbeat, progress, stuck, hung,
hanging, stall, deadlock, no activity, subset of ranks, override, different device, devices were, identification,
notready, deleted at, lmod, mismatch, i/o err, creation, extracting, mounting, address already, too many, ctrl-c,
marked down, unbound, unexpected, fallen off, nccl warn, nccl op, nccl watch, handling of, no such, not found, no
space, return code, bus err, lost comm, panic, unrecogni, missing option, missing argument, missing parameter, missing
command, missing mandatory, missing required, must specify, no viable, extraneous, multiple values, requires an, does
not take, no value for, unknown option, unknown command, unknown queue, unknown job, nodes are available, no available
node, provision, instancecapacity, placement group, unmounted, remount, lockup, lost contact, marked dead,
insufficient, with status, status check, pending reason, reason=, forbidden, unschedulable, infeasible, power off,
powered off, lost power, ac lost, sister, priority, qos, assoc, held, reboot, crashed, unreachable, disappeared, left
the cluster, went down, gone down, restarted unexp, not updated, been updated, hangs, intentionally stopped, stop
request, "verb", credential, kerberos, kinit
"""
_WORDS = re.compile(r"\b(?:nan|inf|hang)\b|\bexc\.")
_NUMBERED = re.compile(r"(?i)exit|code|status|signal|xid|errno|oom|failcnt|return|curl: \(|\[cd\]")
_PARTS = tuple(" ".join(part.split()) for part in _FRAGMENTS.split(","))
_NO_DIGITS = {ord(digit): None for digit in "0123456789"}


def may_matter(line: str) -> bool:
    """Return whether a rule could fit this line."""
    return _may_matter(shape_of(line))


def shape_of(line: str) -> str:
    """Return the line without its digits: most lines of a log differ from another one in their numbers only."""
    return line.translate(_NO_DIGITS)


def is_decided_by_words(shape: str) -> bool:
    """Return whether all lines of this shape fit the same rule, or none; a number that rules read may decide, too."""
    return _NUMBERED.search(shape) is None


@lru_cache(maxsize=16_384)
def _may_matter(text: str) -> bool:
    lower = text.lower()
    return any(fragment in lower for fragment in _PARTS) or _WORDS.search(lower) is not None
