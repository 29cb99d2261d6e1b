"""Validated scalars: what each accepts and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsdpctl.schema.types import check_env_name, check_host, check_name, check_word, format_duration, parse_duration


@settings(deadline=None)  # test machines are busy
@given(st.integers(1, 10**9))
def test_a_duration_is_read_as_it_was_written(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    {
        "90s": 90,
        "30m": 1800,
        "1h30m": 5400,
        "2d": 172_800,
        "1:30:00": 5400,
        "2-00:00:00": 172_800,
        "72h": 259_200,
    }.items(),
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


NO_DURATIONS = ["", "s", "0s", "0:00:00", "90", "1:30", "1:60:00", "1:00:60", "-5s", "5 s", "5S", "5m1h", "1.5h", "1w"]
NO_DURATIONS += ["\u0665s", "5s\n", "9" * 5000 + "s"]


@pytest.mark.parametrize("value", [*NO_DURATIONS, 90, 1.5, None, True, []])
def test_a_malformed_duration_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a duration"):
        parse_duration(value)


BAD_NAMES = ["", "-a", ".a", "_a", "a b", "a/b", "a\n", "a'b", "$(id)", "a;b", "x" * 65, "\u00e4", "\u0663", "a\0"]


@pytest.mark.parametrize("value", BAD_NAMES)
def test_a_malformed_name_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="a name has"):
        check_name(value)


@pytest.mark.parametrize("value", ["node-1", "10.0.0.1", "::1", "fe80::1%eth0", "gpu_07.cluster.local", "a" * 253])
def test_hosts(value: str) -> None:
    assert check_host(value) == value


@pytest.mark.parametrize(
    "value", ["", "-oProxyCommand=x", "a b", "a;b", "$(id)", "u@h", "a\n", "a/b", "a" * 254, "h\u00f6st"]
)
def test_a_malformed_host_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="a host is"):
        check_host(value)


@pytest.mark.parametrize(
    "value", ["999.1.1.1", "256.0.0.1", "10.0.0", "10.0.0.1.2", "10.0.0.", "10..0.1", "host:22", "fe80:::1", ":"]
)
def test_a_malformed_address_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"^not an IPv[46] address"):
        check_host(value)


@pytest.mark.parametrize("value", ["", "-x", " a", "a ", "a\tb", "a\x7f", "a\x85b", "a\u2028b", "a\nb"])
def test_a_malformed_word_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"must not be empty|control character"):
        check_word(value)


@pytest.mark.parametrize(
    "value", ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "FSDPCTL_X", "TORCHELASTIC_RUN_ID"]
)
def test_reserved_variables_cannot_be_set(value: str) -> None:
    with pytest.raises(ValueError, match="is set by fsdpctl or torchrun"):
        check_env_name(value)
