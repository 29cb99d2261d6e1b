"""Explain how an attempt ended: the roles of its ranks, and a diagnosis."""

from __future__ import annotations

from fsdpctl.contract import Cause
from fsdpctl.contract.causes import RULES
from fsdpctl.contract.records import Resources
from fsdpctl.explain.categories import Category
from fsdpctl.explain.evidence import AttemptEvidence
from fsdpctl.explain.explanation import Confidence, Diagnosis, FailedRank
from fsdpctl.explain.failed_ranks import Failed, as_failed_node, as_failed_rank, find_failed
from fsdpctl.explain.rank_failure import is_lost_peer
from fsdpctl.explain.roles import Initiators, find_initiators
from fsdpctl.explain.rule import Strength
from fsdpctl.explain.rulebook import rules_for_cause
from fsdpctl.explain.structured import domain_of, may_retry, of_cause

_NOT_KNOWN = (Category.UNKNOWN, Category.SIGNAL, Category.EXIT_CODE)


def explain_attempt(
    attempt: AttemptEvidence, cause: Cause | None, reason: str
) -> tuple[Diagnosis, tuple[FailedRank, ...]]:
    """Return the diagnosis of an attempt that ended by `cause`, and its ranks that did not end well."""
    initiators = find_initiators(attempt, cause, is_lost_peer)
    failed = find_failed(attempt, initiators, cause)
    nodes = [as_failed_node(node, attempt, cause, attempt.hosts) for node in initiators.nodes]
    ranks = (*nodes, *(as_failed_rank(one, attempt) for one in failed))
    if initiators.ranks:
        return _of_rank(failed[0], ranks[0], attempt, initiators), ranks
    return of_end(cause, reason, initiators.confidence), ranks


def of_end(cause: Cause | None, reason: str, confidence: Confidence = Confidence.CERTAIN) -> Diagnosis:
    """Return the diagnosis of an end that no rank caused, or of which no rank is known."""
    category = of_cause(cause) or Category.UNKNOWN
    rules = rules_for_cause(cause) if cause is not None else ()
    if rules:
        rule = rules[0]
        return Diagnosis(
            rule.category,
            rule.domain,
            rule.retry,
            confidence,
            rule.explain({}),
            rule.advise({}),
            (reason,),
            rule.id,
            rule.docs,
        )
    summary = (
        RULES[cause].meaning
        if cause is not None and category is not Category.UNKNOWN
        else "Not known: no rank recorded a failure of its own."
    )
    if category is Category.UNKNOWN:
        confidence = Confidence.UNKNOWN
    return Diagnosis(category, domain_of(category), may_retry(category), confidence, summary, evidence=(reason,))


def _of_rank(first: Failed, shown: FailedRank, attempt: AttemptEvidence, initiators: Initiators) -> Diagnosis:
    """Return the diagnosis of the rank that failed first."""
    match, category = first.kind.match, shown.category
    end = attempt.ends.get(shown.node_rank)
    evidence = _evidence(first, end.resources if end is not None else None)
    if match is not None and match.rule.category is category:
        return Diagnosis(
            category,
            match.rule.domain,
            match.rule.retry,
            _confidence(first, initiators),
            match.sentence,
            match.remedy,
            evidence,
            match.rule.id,
            match.rule.docs,
        )
    confidence = Confidence.UNKNOWN if category in _NOT_KNOWN else _confidence(first, initiators)
    return Diagnosis(category, shown.domain, shown.retry, confidence, _sentence(first, shown), evidence=evidence)


def _confidence(first: Failed, initiators: Initiators) -> Confidence:
    if initiators.confidence is not Confidence.CERTAIN:
        return initiators.confidence
    match = first.kind.match
    is_weak = match is not None and match.rule.strength is Strength.HINT
    return Confidence.CERTAIN if first.kind.is_recorded and not is_weak else Confidence.LIKELY


def _sentence(first: Failed, shown: FailedRank) -> str:
    return f"Rank {shown.rank} on {shown.host}: {shown.message}."


def _evidence(first: Failed, resources: Resources | None) -> tuple[str, ...]:
    rank = first.evidence
    found = []
    if rank.error is not None and rank.error.kinds:
        found.append(f"error record of rank {rank.rank}")
    elif first.kind.match is not None:
        found.append(f"{rank.log.name} of node {rank.node_rank}: {first.kind.match.line}")
    if rank.exit_code is not None:
        found.append(f"exit code {rank.exit_code}, as torchrun saw it")
    if resources is not None:
        found += _describe_resources(resources)
    return tuple(found)


def _describe_resources(resources: Resources) -> list[str]:
    found = []
    if resources.oom_kills:
        limit = f", limit {_gib(resources.memory_limit)}" if resources.memory_limit is not None else ""
        peak = f", peak {_gib(resources.memory_peak)}" if resources.memory_peak is not None else ""
        found.append(f"the kernel killed {resources.oom_kills} processes of the node's cgroup for memory{limit}{peak}")
    elif resources.host_oom_kills:
        found.append(f"the kernel killed {resources.host_oom_kills} processes of the host for memory")
    if resources.is_disk_full:
        found.append("the disk of the run is full")
    return found


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
