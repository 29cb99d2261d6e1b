"""Conversations: how the common layouts of fine-tuning data become one list of messages."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

MESSAGES, SHARE_GPT = "messages", "conversations"
PROMPT, COMPLETION = "prompt", "completion"
LAYOUTS = f"{MESSAGES!r}, {SHARE_GPT!r}, or {PROMPT!r} with {COMPLETION!r}"
ASSISTANT = "assistant"
"""The role whose messages are trained."""
_SHARE_GPT_ROLES = {"human": "user", "gpt": ASSISTANT}


def conversation_keys(present: Collection[str]) -> tuple[str, ...]:
    """Return the keys or columns that hold a conversation. Raise ValueError if none of them do."""
    for keys in ((MESSAGES,), (SHARE_GPT,), (PROMPT, COMPLETION)):
        if all(key in present for key in keys):
            return keys
    raise ValueError(f"no conversation: expected {LAYOUTS}; found {', '.join(map(repr, present))[:200]}")


def encode_conversation(record: Mapping[str, Any]) -> bytes:
    """Return the messages of a record as JSON: a list of objects with `role` and `content`.

    Raise ValueError with what is wrong.
    """
    keys = conversation_keys(record.keys())
    if keys == (PROMPT, COMPLETION):
        messages = [*_as_messages(record[PROMPT], "user"), *_as_messages(record[COMPLETION], ASSISTANT)]
    elif isinstance(found := record[keys[0]], list):
        messages = [_check(message, number) for number, message in enumerate(found, 1)]
    else:
        raise ValueError(f"{keys[0]!r} is {found!r:.40}, expected a list of messages")
    if not any(message["role"] == ASSISTANT for message in messages):
        raise ValueError(f"no message with the role {ASSISTANT!r}: nothing of it would be trained")
    try:
        return json.dumps(messages, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a message contains half of a surrogate pair, which UTF-8 cannot encode") from None


def _as_messages(value: Any, role: str) -> list[dict[str, Any]]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, list):
        return [_check(message, number) for number, message in enumerate(value, 1)]
    raise ValueError(f"{value!r:.40} is neither text nor a list of messages")


def _check(message: Any, number: int) -> dict[str, Any]:
    """Return a message without its empty keys, which columns of a table have for all rows."""
    if not isinstance(message, dict):
        raise ValueError(f"message {number} is {message!r:.40}, expected an object with 'role' and 'content'")
    if "from" in message and "role" not in message:
        role = message["from"]
        message = {"role": _SHARE_GPT_ROLES.get(role, role), "content": message.get("value")}
    kept = {key: value for key, value in message.items() if value is not None}
    if not isinstance(kept.get("role"), str):
        raise ValueError(f"message {number} has no 'role'")
    if not isinstance(kept.get("content"), str) and "tool_calls" not in kept:
        raise ValueError(f"message {number}: 'content' is {message.get('content')!r:.40}, expected text")
    return kept
