"""How an exception counts among those of other ranks."""

from __future__ import annotations

import pytest

from fsdpctl.contract import RankFailure
from fsdpctl.contract.first_failure import classify, describe_error, name_error
from fsdpctl.contract.records import RankError

GLOO = RuntimeError("[gloo/pair.cc:534] Connection closed by peer [10.0.0.1]:41")


class DistBackendError(RuntimeError):
    """As torch's own: a subclass of RuntimeError."""


def caused_by(error: Exception) -> Exception:
    wrapped = ValueError("the epoch failed")
    wrapped.__cause__ = error
    return wrapped


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (GLOO, RankFailure.LOST_PEER),
        (DistBackendError("NCCL error: ncclRemoteError"), RankFailure.LOST_PEER),
        (caused_by(GLOO), RankFailure.LOST_PEER),
        (RuntimeError("[gloo/buffer.cc:81] Timed out waiting 4000ms for recv operation"), RankFailure.LOST_PEER),
        (DistBackendError("wait timeout after 300000ms, keys: /default_pg/0//cuda//0"), RankFailure.LOST_PEER),
        (RuntimeError("Timed out after 61 seconds waiting for clients. 3/4 clients joined."), RankFailure.LOST_PEER),
        (ConnectionResetError("Connection reset by peer"), RankFailure.EXCEPTION),  # of the script's own storage
        (ValueError("connection refused"), RankFailure.EXCEPTION),
        (RuntimeError("CUDA out of memory"), RankFailure.EXCEPTION),
        (SystemExit(1), RankFailure.EXIT_CODE),
    ],
)
def test_a_lost_peer_is_not_an_own_failure(error: BaseException, failure: RankFailure) -> None:
    assert classify(error) is failure


def test_an_error_is_one_line() -> None:
    assert describe_error(RankError(2, 1, 1.0, "ValueError: bad\nrest", "")) == "rank 2 on node 1: ValueError: bad"
    assert len(describe_error(RankError(2, 1, 1.0, "x" * 9999, ""))) < 350


@pytest.mark.parametrize(("error", "name"), [(KeyError("x"), "KeyError: 'x'"), (MemoryError(), "MemoryError")])
def test_an_exception_without_a_text_has_the_name_of_its_class(error: Exception, name: str) -> None:
    assert name_error(error) == name
