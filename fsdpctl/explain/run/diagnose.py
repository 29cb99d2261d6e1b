"""Explain how an attempt ended: the roles of its ranks, and a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from fsdpctl.contract import Cause
from fsdpctl.contract.causes import RULES
from fsdpctl.explain.categories import Category
from fsdpctl.explain.explanation import Confidence, Diagnosis, FailedRank
from fsdpctl.explain.flight.describe import summarize
from fsdpctl.explain.flight.finding import FlightFinding, FlightKind
from fsdpctl.explain.rule import Rule, Strength, end_sentence
from fsdpctl.explain.rulebook import rule_of, rules_for_cause
from fsdpctl.explain.run.describe_evidence import describe_evidence, describe_resources, memory_fields
from fsdpctl.explain.run.evidence import AttemptEvidence
from fsdpctl.explain.run.failed_ranks import Failed, as_failed_node, as_failed_rank, find_failed
from fsdpctl.explain.run.memory_changes import memory_changes
from fsdpctl.explain.run.rank_failure import is_lost_peer
from fsdpctl.explain.run.roles import Initiators, find_initiators
from fsdpctl.explain.run.structured import domain_of, may_retry, of_cause
from fsdpctl.logs.ranges import fold_nodes

_NO_FIELDS: Mapping[str, str] = MappingProxyType({})
_NOT_KNOWN = (Category.UNKNOWN, Category.SIGNAL, Category.EXIT_CODE)


def explain_attempt(
    attempt: AttemptEvidence, cause: Cause | None, reason: str
) -> tuple[Diagnosis, tuple[FailedRank, ...]]:
    """Return the diagnosis of an attempt that ended by `cause`, and its ranks that did not end well."""
    found, ranks = _explain(attempt, cause, reason)
    if unread := attempt.facts.unreadable:
        denied = f"the directory of {fold_nodes(unread)} cannot be read: permission denied"
        found = replace(found, evidence=(*found.evidence, denied))
    return found, ranks


def _explain(attempt: AttemptEvidence, cause: Cause | None, reason: str) -> tuple[Diagnosis, tuple[FailedRank, ...]]:
    initiators = find_initiators(attempt, cause, is_lost_peer)
    failed = find_failed(attempt, initiators, cause)
    nodes = [as_failed_node(node, attempt, cause) for node in initiators.nodes]
    ranks = (*nodes, *(as_failed_rank(one, attempt) for one in failed))
    if initiators.ranks:
        return _of_rank(failed[0], ranks[0], attempt, initiators, cause), ranks
    if nodes:
        return _of_node(nodes[0], attempt, cause, reason, initiators.confidence), ranks
    if ranks and attempt.flight is not None:
        return _of_operation(attempt.flight, cause, reason, attempt.fields), ranks
    return of_end(cause, reason, attempt.fields, initiators.confidence), ranks


def _of_operation(flight: FlightFinding, cause: Cause | None, reason: str, fields: Mapping[str, str]) -> Diagnosis:
    """Return the diagnosis of ranks that wait for each other in an operation, none of which is the odd one."""
    if flight.kind is FlightKind.MISMATCH:
        rule = rule_of("run_ranks_disagree")
        evidence = (reason, *summarize(flight))
        return _diagnosis(rule.category, Confidence.CERTAIN, rule.explain(fields), evidence, rule, fields)
    found = of_end(cause, reason, fields, Confidence.UNKNOWN)
    return replace(found, evidence=(*found.evidence, *summarize(flight)))


def of_end(
    cause: Cause | None, reason: str, fields: Mapping[str, str], confidence: Confidence = Confidence.CERTAIN
) -> Diagnosis:
    """Return the diagnosis of an end that no rank caused, or of which no rank is known; `fields` are for its text."""
    category = of_cause(cause)
    if cause is None or category is None:
        summary = "Not known: no rank or node recorded a failure of its own."
        return _diagnosis(Category.UNKNOWN, Confidence.UNKNOWN, summary, (reason,))
    fields = {"reason": reason, **fields}
    return _diagnosis(category, confidence, RULES[cause].meaning, (reason,), _rule_for(cause, category), fields)


def _of_node(
    node: FailedRank, attempt: AttemptEvidence, cause: Cause | None, reason: str, confidence: Confidence
) -> Diagnosis:
    """Return the diagnosis of a node that ended the attempt."""
    resources = attempt.resources_of(node.node_rank)
    fields = {**attempt.fields, "host": node.host, **memory_fields(resources)}
    evidence = (reason, *describe_resources(resources, node.category))
    if node.category not in (Category.OOM_KILLER, Category.DISK_FULL):
        return replace(of_end(cause, reason, fields, confidence), evidence=evidence)
    rule = _rule_for(cause, node.category)
    return _diagnosis(node.category, Confidence.LIKELY, reason, evidence, rule, fields)


def _of_rank(
    first: Failed, shown: FailedRank, attempt: AttemptEvidence, initiators: Initiators, cause: Cause | None
) -> Diagnosis:
    """Return the diagnosis of the rank that failed first."""
    category, match = shown.category, first.kind.match
    resources = attempt.resources_of(shown.node_rank)
    evidence = describe_evidence(first, resources, attempt.hang if cause is Cause.HANG else None)
    if (initiators.is_by_elimination or cause is Cause.HANG) and attempt.flight is not None:
        evidence = (*evidence, *summarize(attempt.flight))
    own = {"rank": str(shown.rank), "host": shown.host, "reason": shown.message}
    fields = {**attempt.fields, **own, **memory_fields(resources)}
    rule = rule_of(first.kind.rule) if first.kind.rule else _rule_for(cause, category)
    if match is not None and match.rule.category is category:
        rule, fields = match.rule, {**fields, **match.fields}
    confidence = Confidence.UNKNOWN if category in _NOT_KNOWN else _confidence(first, initiators)
    found = _diagnosis(
        category, confidence, end_sentence(f"Rank {shown.rank}: {shown.message}."), evidence, rule, fields
    )
    if category is Category.CUDA_OOM and attempt.trainer is not None:
        changes = memory_changes(attempt.trainer, fields, attempt.run.root.name, attempt.plan)
        return replace(found, changes=changes)
    if first.evidence.error is not None and (variable := first.evidence.error.variable):
        change = f"The path is from {variable}, set for the ranks: give it a path that each node has, or unset it."
        return replace(found, changes=(change, *found.changes))
    return found


def _diagnosis(
    category: Category,
    confidence: Confidence,
    summary: str,
    evidence: tuple[str, ...],
    rule: Rule | None = None,
    fields: Mapping[str, str] = _NO_FIELDS,
) -> Diagnosis:
    """Return a diagnosis, with the text of a rule if there is one."""
    if rule is None:
        return Diagnosis(category, domain_of(category), may_retry(category), confidence, summary, evidence=evidence)
    return Diagnosis(
        category=category,
        domain=rule.domain,
        retry=rule.retry,
        confidence=confidence,
        summary=rule.explain(fields),
        changes=rule.advise(fields),
        evidence=evidence,
        rule=rule.id,
        docs=rule.docs,
    )


def _rule_for(cause: Cause | None, category: Category) -> Rule | None:
    rules = rules_for_cause(cause) if cause is not None else ()
    return next((rule for rule in rules if rule.category is category), None)


def _confidence(first: Failed, initiators: Initiators) -> Confidence:
    if initiators.confidence is not Confidence.CERTAIN:
        return initiators.confidence
    match = first.kind.match
    is_weak = match is not None and match.rule.strength is Strength.HINT
    return Confidence.LIKELY if is_weak else first.kind.confidence
