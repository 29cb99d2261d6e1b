"""The category of a failure from values: no text of a message is read."""

from __future__ import annotations

import errno

import pytest

from fsdpctl.contract import Cause, RankFailure
from fsdpctl.contract.first_failure import find_errno, name_kinds
from fsdpctl.contract.records import RankError, Resources
from fsdpctl.explain.categories import Category, Domain
from fsdpctl.explain.run.structured import domain_of, may_retry, of_cause, of_error, of_exit, of_node


class ShardMissing(FileNotFoundError):
    pass


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        raise error from cause
    except type(error) as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (ValueError("FileNotFoundError: no"), Category.EXCEPTION),
        (RuntimeError("CUDA out of memory"), Category.RUNTIME_ERROR),
        (NotImplementedError(), Category.RUNTIME_ERROR),
        (ShardMissing(errno.ENOENT, "no such file"), Category.FILE_NOT_FOUND),
        (raised(ValueError("cannot read"), PermissionError()), Category.PERMISSION),
        (OSError(errno.ENOSPC, "full"), Category.DISK_FULL),
        (raised(RuntimeError("save"), OSError(errno.EDQUOT, "quota")), Category.DISK_FULL),
        (OSError(errno.ESTALE, "stale"), Category.STORAGE),
        (ModuleNotFoundError(), Category.MISSING_MODULE),
        (MemoryError(), Category.RAM_OOM),
        (KeyboardInterrupt(), Category.SIGNAL),
        (ZeroDivisionError(), Category.DIVISION_BY_ZERO),
        (AssertionError(), Category.ASSERTION),
    ],
    ids=lambda value: str(value) if isinstance(value, Category) else None,
)
def test_an_exception_has_the_category_of_its_classes(error: BaseException, category: Category) -> None:
    record = RankError(0, 0, 1.0, f"any text: {error}", "", kinds=name_kinds(error), errno=find_errno(error))
    assert of_error(record) is category


def test_an_exception_that_causes_itself_is_read_once() -> None:
    error = ValueError()
    error.__cause__ = error
    assert name_kinds(error) == ("ValueError",)


def test_a_record_of_an_older_version_has_its_class_in_the_text() -> None:
    assert of_error(RankError(0, 0, 1.0, "ZeroDivisionError: division by zero", "")) is Category.DIVISION_BY_ZERO


def test_a_refused_configuration_and_a_bad_exit_are_no_exceptions() -> None:
    refused = RankError(0, 0, 1.0, "lr must be positive", "", expected=True, cause=Cause.CONFIGURATION)
    assert of_error(refused) is Category.CONFIGURATION
    left = RankError(0, 0, 1.0, "SystemExit: 3", "", failure=RankFailure.EXIT_CODE, kinds=("SystemExit",))
    assert of_error(left) is Category.EXIT_CODE


@pytest.mark.parametrize(
    ("code", "resources", "category"),
    [
        (3, None, Category.EXIT_CODE),
        (-9, None, Category.SIGNAL),
        (-9, Resources(oom_kills=0, host_oom_kills=0), Category.SIGNAL),
        (-9, Resources(oom_kills=1), Category.OOM_KILLER),
        (-9, Resources(oom_kills=0, host_oom_kills=1), Category.OOM_KILLER),
        (-15, Resources(oom_kills=1), Category.SIGNAL),
        (-11, None, Category.SEGFAULT),
        (-7, Resources(shm_free=0), Category.RAM_OOM),
        (-7, Resources(shm_free=2**30), Category.SIGNAL),
        (-64, None, Category.SIGNAL),
    ],
)
def test_an_exit_code_has_a_category_by_what_its_node_had_run_out_of(
    code: int, resources: Resources | None, category: Category
) -> None:
    assert of_exit(code, resources) is category


@pytest.mark.parametrize(
    ("cause", "resources", "category"),
    [
        (Cause.AGENT, Resources(oom_kills=0, host_oom_kills=1), Category.OOM_KILLER),
        (Cause.TORCHRUN, Resources(oom_kills=2), Category.OOM_KILLER),
        (Cause.TORCHRUN, Resources(oom_kills=0, host_oom_kills=1), Category.RENDEZVOUS),
        (Cause.TORCHRUN, Resources(is_disk_full=True), Category.DISK_FULL),
        (Cause.NODE_CHECK, Resources(oom_kills=1, is_disk_full=True), Category.DISK_FULL),
        (Cause.JOIN, Resources(is_disk_full=True), Category.RENDEZVOUS),
        (Cause.TORCHRUN, None, Category.RENDEZVOUS),
    ],
)
def test_a_node_may_have_run_out_of_what_ranks_run_out_of(
    cause: Cause, resources: Resources | None, category: Category
) -> None:
    assert of_node(cause, resources) is category


def test_every_cause_that_no_rank_reports_has_a_category() -> None:
    of_ranks = {Cause.UNKNOWN, Cause.FINISHED, Cause.SIGNAL, Cause.EXIT_CODE, Cause.ABORT}
    assert {cause for cause in Cause if of_cause(cause) is None} == of_ranks


def test_every_category_has_a_domain() -> None:
    assert domain_of(Category.CUDA_OOM) is Domain.WORKLOAD and not may_retry(Category.CUDA_OOM)
    assert domain_of(Category.PREEMPTION) is Domain.INFRASTRUCTURE and may_retry(Category.PREEMPTION)
    assert domain_of(Category.SIGNAL) is Domain.UNKNOWN and may_retry(Category.SIGNAL)
    assert not may_retry(Category.DISK_FULL)
