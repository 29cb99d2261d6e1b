"""What of a message is a credential, and what only looks like one."""

from __future__ import annotations

import pytest

from fsdpctl.schema.credentials import hide_credentials


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("clone https://ann:pa55word@host/x failed", "clone https://***@host/x failed"),
        ("redis://:pa55@10.0.0.1:6379/0", "redis://***@10.0.0.1:6379/0"),
        ("login failed: token=hf_abcdefghijklmnopqrstuv", "login failed: token=***"),
        ("401 for hf_abcdefghijklmnopqrstuv.", "401 for ***."),
        ("Authorization: Bearer eyJhbGciOi.JIUzI1Ni-J9", "Authorization: Bearer ***"),
        ("AWS_SECRET_ACCESS_KEY=abcd/efgh WANDB_API_KEY='0123abcd'", "AWS_SECRET_ACCESS_KEY=*** WANDB_API_KEY='***'"),
        ('{"password": "pa55", "user": "ann"}', '{"password": "***", "user": "ann"}'),
    ],
)
def test_credentials_are_hidden(text: str, shown: str) -> None:
    assert hide_credentials(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "http://10.0.0.1:8080/x@y",
        "pad_token=<pad> max_tokens=512 token=0",
        "secret_file=/run/secret HF_TOKEN=$HF_TOKEN",
        "RuntimeError: password is missing; lr=3e-4 sk-learn",
        "file:///home/ann/run a basic block of 12 layers",
    ],
)
def test_the_rest_stays(text: str) -> None:
    assert hide_credentials(text) == text
