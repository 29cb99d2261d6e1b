"""A notice as text, and as the bodies that webhooks expect. Pure."""

from __future__ import annotations

from typing import Any

from fsdpctl.contract import State
from fsdpctl.contract.codec import encode
from fsdpctl.contract.notify import Form, Notice, Occasion

VERSION = 1
_WIDTH = 11
_LIMITS: dict[Form, int] = {"slack": 3500, "discord": 1800, "teams": 15_000, "json": 15_000}
"""Characters of the text that a service shows; Discord refuses messages of more than 2000."""
_ORDER: tuple[Occasion, ...] = ("hang", "preemption", "no_start", "non_finite_loss", "spike")


def title(notice: Notice) -> str:
    """Return one line that names the run and what happened to it."""
    return f"fsdpctl: {notice.run_id} {_happened(notice)}"


def _happened(notice: Notice) -> str:
    if not notice.occasions:
        return "sends a test notice"
    if "no_start" in notice.occasions:
        return "has not started"
    if "non_finite_loss" in notice.occasions:
        return "has a loss that is not finite"
    if "spike" in notice.occasions:
        return "has a loss spike"
    if not notice.restart:
        return str(notice.state)
    first = next((occasion for occasion in _ORDER if occasion in notice.occasions), "failure")
    return {"hang": "hung", "preemption": "was preempted"}.get(first, "failed") + " and restarts"


def body(notice: Notice) -> str:
    """Return what the end of `submit --follow` shows, without its numbers."""
    rows = [("run", f"{notice.run_id} {notice.state or ''}".rstrip() + (f": {notice.reason}" if notice.reason else ""))]
    rows += [("why", notice.why)] if notice.why else []
    rows += [("change", notice.change)] if notice.change else []
    rows += [("attempt", str(notice.attempt))] if notice.attempt else []
    rows += [("step", str(notice.step))] if notice.step is not None else []
    rows += [("directory", notice.run_dir)] if notice.run_dir else []
    rows += [("next", command)] if (command := _next(notice)) else []
    return "\n".join(f"{key:<{_WIDTH}}{' '.join(value.split())}" for key, value in rows)


def _next(notice: Notice) -> str:
    if not notice.occasions:
        return ""
    if notice.restart or notice.state is None or notice.state.is_alive:
        return f"fsdpctl status {notice.run_id}"
    if notice.state is State.SUCCEEDED:
        return f"fsdpctl logs {notice.run_id}"
    verb = "explain" if notice.state in (State.FAILED, State.LOST) else "resume"
    return f"fsdpctl {verb} {notice.run_id}"


def as_json(notice: Notice) -> dict[str, Any]:
    """Return all values of a notice, with its text: what a command and a plain webhook get."""
    return {"v": VERSION, "title": title(notice), "text": body(notice), **encode(notice)}


def webhook_body(form: Form, notice: Notice) -> dict[str, Any]:
    """Return the JSON that a webhook of this form expects."""
    head, text = title(notice), body(notice)[: _LIMITS[form]]
    match form:
        case "slack":
            return {"text": f"*{_escape(head)}*\n```\n{_escape(text)}\n```"}
        case "discord":
            return {"content": f"**{head[:150]}**\n```\n{_fenced(text)}\n```", "allowed_mentions": {"parse": []}}
        case "teams":
            return _teams(head, text)
        case "json":
            return as_json(notice)


def _escape(text: str) -> str:
    """Return text in which Slack sees no mentions and links, nor the end of a block."""
    return _fenced(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fenced(text: str) -> str:
    return text.replace("```", "'''")


def _teams(head: str, text: str) -> dict[str, Any]:
    """Return an Adaptive Card, which webhooks of Teams' Workflows expect."""
    blocks: list[dict[str, Any]] = [{"type": "TextBlock", "text": head, "weight": "Bolder", "wrap": True}]
    blocks += [{"type": "TextBlock", "text": line, "wrap": True, "spacing": "None"} for line in text.splitlines()]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "contentUrl": None, "content": card}]}
