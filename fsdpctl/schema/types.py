"""Validated scalars of profiles and jobs. All values in scripts, commands and environments are checked here."""

from __future__ import annotations

import re
import socket
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from fsdpctl.contract import Cause, Env
from fsdpctl.contract.cards import CARDS, find_card
from fsdpctl.contract.causes import FAILURES
from fsdpctl.contract.progress_regex import compile_progress_regex

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_HOST = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]{0,252}")
_LIKE_IPV4 = re.compile(r"[0-9]+\.[0-9.]*")
_N = "([0-9]{1,9})"
_DURATION = re.compile(f"(?:{_N}d)?(?:{_N}h)?(?:{_N}m)?(?:{_N}s)?")
_CLOCK = re.compile(f"(?:{_N}-)?{_N}:([0-5][0-9]):([0-5][0-9])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HOST_SUFFIX = re.compile(r"([.-][A-Za-z0-9]+)+")
_RESERVED = re.compile(
    rf"(?!({Env.INTEGRATIONS}|{Env.DATA_CACHE}|{Env.DATA_CACHE_GIB})$)FSDPCTL_.*|TORCHELASTIC_.*|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|MASTER_(ADDR|PORT)"
    r"|PYTHONSAFEPATH|PET_SIGNALS_TO_HANDLE"
)


def check_name(value: str) -> str:
    """Check a name, which is used in file names, scheduler comments and commands: an allow-list instead of quoting."""
    if not NAME.fullmatch(value):
        raise ValueError("a name has 1 to 64 letters, digits, '.', '_' or '-' and starts with a letter or digit")
    return value


def check_text(value: str) -> str:
    """Check free text: no control characters, so that a value is always one line."""
    if found := _CONTROL.search(value):
        raise ValueError(f"the control character U+{ord(found[0]):04X} is not allowed")
    return value


def check_word(value: str) -> str:
    """Check text that is used in commands, where a leading dash would make it an option (host names, paths)."""
    check_text(value)
    if not value or value.startswith("-") or value != value.strip():
        raise ValueError("must not be empty, start with '-' or have blanks around it")
    return value


def check_gpu(value: str) -> str:
    """Check the name of a GPU that the table of cards has."""
    if find_card(value) is None:
        raise ValueError(f"no such GPU is known; known are {', '.join(CARDS)}")
    return value


def check_directory(value: str) -> str:
    """Check a path on the nodes: absolute, because no shell there expands `~` or `$HOME`."""
    if not check_word(value).startswith("/"):
        raise ValueError("must be an absolute path, like /shared/me: it is used on the nodes unchanged")
    return value


def check_program(value: str) -> str:
    """Check a program: a name on the PATH of the nodes, or an absolute path there."""
    return check_directory(value) if "/" in value else check_word(value)


def check_host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise ValueError("a host is a name or an IP address: letters, digits, '.', '_', '-', ':' and '%'")
    if _LIKE_IPV4.fullmatch(value) and not _is_address(socket.AF_INET, value):
        raise ValueError("not an IPv4 address: four numbers from 0 to 255, joined by dots")
    if ":" in value and not _is_address(socket.AF_INET6, value.partition("%")[0]):
        raise ValueError("not an IPv6 address, and a host name contains no ':'")
    return value


def _is_address(family: int, text: str) -> bool:
    try:
        socket.inet_pton(family, text)
    except OSError:
        return False
    return True


def check_host_suffix(value: str) -> str:
    if value and not _HOST_SUFFIX.fullmatch(value):
        raise ValueError("a suffix of host names begins with '.' or '-', like .cluster.example or -ib")
    return value


def check_module(value: str) -> str:
    if not _MODULE.fullmatch(value):
        raise ValueError("a module is written as in an import, like train or mypackage.train")
    return value


def check_env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise ValueError("an environment variable has letters, digits and '_' and does not start with a digit")
    if _RESERVED.fullmatch(value):
        raise ValueError("this variable is set by fsdpctl or torchrun and cannot be set here")
    return value


def check_env_value(value: str) -> str:
    """Check an environment value: newlines are allowed, NUL cannot exist in an environment."""
    if "\0" in value:
        raise ValueError("an environment value cannot contain a NUL")
    return value


def check_progress_regex(value: str) -> str:
    """Check a pattern that finds steps in a log."""
    compile_progress_regex(check_text(value))
    return value


def parse_duration(value: object) -> int:
    """Return the seconds of `90s`, `30m`, `1h30m`, `2d`, `1:30:00` or `2-00:00:00`; refuse a number without unit."""
    if isinstance(value, str) and value:
        if (found := _DURATION.fullmatch(value)) and any(found.groups()):
            days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
            return _positive(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
        if found := _CLOCK.fullmatch(value):
            days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
            return _positive(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    raise ValueError("a duration is written like 90s, 30m, 1h30m, 2d, 1:30:00 or 2-00:00:00")


def format_duration(seconds: int) -> str:
    """Return the shortest text that `parse_duration` reads back."""
    parts = [
        (seconds // 86400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "m"),
        (seconds % 60, "s"),
    ]
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def parse_failure_cause(value: object) -> Cause:
    """Return the cause of a failure by its name. Raise ValueError for anything else, with all that there are."""
    if isinstance(value, str) and value in FAILURES:
        return Cause(value)
    raise ValueError(f"must be one of {', '.join(FAILURES)}")


def _positive(seconds: int) -> int:
    if seconds < 1:
        raise ValueError("a duration must be at least one second")
    return seconds


AS_WRITTEN = "as written"
"""Marks text that takes a number or a boolean as it is written in the file; `as_written.py` reads it."""

Name = Annotated[str, AfterValidator(check_name)]
Argument = Annotated[str, AfterValidator(check_text), AS_WRITTEN]
Text = Annotated[str, AfterValidator(check_text)]
Gpu = Annotated[str, AfterValidator(check_gpu)]
Word = Annotated[str, AfterValidator(check_word)]
Directory = Annotated[str, AfterValidator(check_directory)]
Program = Annotated[str, AfterValidator(check_program)]
Host = Annotated[str, AfterValidator(check_host)]
HostSuffix = Annotated[str, AfterValidator(check_host_suffix)]
ProgressRegex = Annotated[str, AfterValidator(check_progress_regex)]
Module = Annotated[str, AfterValidator(check_module)]
EnvName = Annotated[str, AfterValidator(check_env_name)]
EnvValue = Annotated[str, AfterValidator(check_env_value), AS_WRITTEN]
EnvMap = dict[EnvName, EnvValue]
Duration = Annotated[int, BeforeValidator(parse_duration), PlainSerializer(format_duration, return_type=str)]
FailureCause = Annotated[Cause, BeforeValidator(parse_failure_cause)]
Count = Annotated[int, Field(ge=1, le=100_000)]
RanksPerNode = Annotated[int, Field(ge=1, le=1024)]
Port = Annotated[int, Field(ge=1, le=65_535)]
