"""Which rank failed first: one rule for the agent of a node, the supervisor and `logs`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from errno import EIO, EROFS

from fsdpctl.contract import RankFailure
from fsdpctl.contract.path_variable import find_path_variable
from fsdpctl.contract.records import NodeEnd, RankError

_LOST_PEER = re.compile(
    r"connection (?:was )?(?:likely )?(?:closed|reset)(?: by (?:remote )?peer)?|connection refused|broken pipe"
    r"|remote process exited|ncclRemoteError|socket timeout|watchdog caught collective operation timeout"
    r"|timed out waiting \d+ ?ms|(?:wait|barrier) timeout after|timed out in monitoredBarrier|waiting for clients",
    re.IGNORECASE,
)
_HARDWARE = re.compile(
    r"uncorrectable (?:ECC|NVLink)|(?:ECC|NVLink) error|CUDA error: hardware stack error|GPU is lost|fallen off the bus"
    r"|device (?:not ready|unavailable)|\bXid\b|contained memory error|IB\w* .*(?:port error|remote access error)",
    re.IGNORECASE,
)
_SENTENCE_LIMIT = 300
_ROOTS = (Exception, BaseException, object)


def classify(error: BaseException) -> RankFailure:
    """Return how the exception that ends a rank counts among those of its peers.

    gloo, NCCL and the store report a lost peer as a RuntimeError with no type of its own, so its text is read where it
    is raised. An OSError of the same text is a connection of the script's own.
    """
    if any(isinstance(found, RuntimeError) and names_lost_peer(str(found)) for found in (error, error.__cause__)):
        return RankFailure.LOST_PEER
    return RankFailure.EXIT_CODE if isinstance(error, SystemExit) else RankFailure.EXCEPTION


def names_lost_peer(text: str) -> bool:
    """Return whether a message of a library is about a peer that is gone or does not answer."""
    return _LOST_PEER.search(text) is not None


def is_hardware_fault(error: BaseException) -> bool:
    """Return whether a GPU, a link or a disk reports a fault: CUDA and NCCL do so as a RuntimeError with a text."""
    chain = list(_chain(error))
    if any(isinstance(one, OSError) and one.errno in (EIO, EROFS) for one in chain):
        return True
    return any(isinstance(one, RuntimeError) and _HARDWARE.search(str(one)) for one in chain)


def name_error(error: BaseException) -> str:
    """Return the class and text of an exception; of one without a text the class, as Python's own traceback does."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def name_kinds(error: BaseException) -> tuple[str, ...]:
    """Return the names of the exception's classes, most specific first, then of those that it was raised from."""
    kinds = [kind.__name__ for one in _chain(error) for kind in type(one).__mro__ if kind not in _ROOTS]
    return tuple(dict.fromkeys(kinds))


def find_errno(error: BaseException) -> int | None:
    """Return the number of the first system error among the exception and what it was raised from."""
    return next((one.errno for one in _system_errors(error)), None)


def find_variable(error: BaseException, env: Mapping[str, str]) -> str:
    """Return the environment variable with the path that a system error is about; empty if there is none."""
    return next(filter(None, (find_path_variable(one, env) for one in _system_errors(error))), "")


def _system_errors(error: BaseException) -> Iterator[OSError]:
    return (one for one in _chain(error) if isinstance(one, OSError))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        yield found
        seen.add(id(found))
        found = found.__cause__


def failure_order(error: RankError) -> tuple[int, float, int]:
    """Return the key that sorts the first failure to the front.

    Time alone is not enough: the clocks of nodes differ, and peers notice a killed rank before its agent does.
    """
    return distance(error.failure), error.time, error.rank


def distance(failure: RankFailure) -> int:
    """Return 0 for a failure of a rank's own, more for one that may follow from another."""
    return {RankFailure.EXIT_CODE: 1, RankFailure.LOST_PEER: 2}.get(failure, 0)


def describe_error(error: RankError) -> str:
    """Return one line: the rank, its node, and the first line of the message."""
    return f"rank {error.rank} on node {error.node_rank}: {headline(error)}"


def name_end(node_rank: int, end: NodeEnd) -> str:
    """Return the reason of a node's exit record, with its node."""
    return end.reason if end.first_error is not None else f"node {node_rank}: {end.reason}"


def headline(error: RankError) -> str:
    """Return the first line of the message; a longer one is cut."""
    line = error.message.strip().partition("\n")[0]
    return line if len(line) <= _SENTENCE_LIMIT else f"{line[:_SENTENCE_LIMIT]} ..."
