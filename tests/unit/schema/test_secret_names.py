"""Which values of names like TOKEN are secrets."""

from __future__ import annotations

import pytest

from fsdpctl.schema.secret_names import is_secret, is_secret_option

PLAIN = ("", "0", "8", "0.1", "1e-4", "-1", "nan", "true", "<image>", "</s>", "$HF_TOKEN", "/run/token", "~/token")


@pytest.mark.parametrize("value", PLAIN)
def test_numbers_places_and_tokens_of_text_are_no_secrets(value: str) -> None:
    assert not is_secret("IMAGE_TOKEN", value)
    assert not is_secret_option("--token-dropout", value)


@pytest.mark.parametrize("value", ["hf_abc", "0123abcd", "pw", "<pw", "1.2.3"])
def test_other_values_are_secrets(value: str) -> None:
    assert is_secret("HF_TOKEN", value)
    assert is_secret_option("--hf-token", value)


def test_a_flag_before_another_option_has_no_secret() -> None:
    assert not is_secret_option("--use-auth-token", "--lr")
