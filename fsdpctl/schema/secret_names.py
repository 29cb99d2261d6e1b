"""Names of variables and options whose values seem to be secrets."""

from __future__ import annotations

from itertools import pairwise

SECRET_WORDS = {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "CREDENTIAL", "CREDENTIALS"}
SECRET_PAIRS = {("API", "KEY"), ("ACCESS", "KEY"), ("PRIVATE", "KEY"), ("SECRET", "KEY"), ("AUTH", "KEY")}
PLACES = {"PATH", "FILE", "DIR", "URL", "ID", "LIMIT", "COUNT", "TYPE", "NAME"}
"""Last words of variables that name where a secret is, or something about one."""
TOKENS_OF_TEXT = {"PAD", "EOS", "BOS", "UNK", "MASK", "SEP", "CLS", "IGNORE", "SPECIAL"}


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable seems to hold a secret, by its name; a path, a number, a reference or a token of text
    like `<image>` is none."""
    words = name.upper().split("_")
    if not value or value.lower() in ("true", "false") or value.startswith(("/", "~", "./", "$")):
        return False
    if _is_number(value) or (value.startswith("<") and value.endswith(">")):
        return False
    if words[-1] in PLACES or TOKENS_OF_TEXT & set(words):
        return False
    return bool(SECRET_WORDS & set(words)) or bool(SECRET_PAIRS & set(pairwise(words)))


def is_secret_option(option: str, value: str) -> bool:
    """Return whether an option of a command seems to pass a secret; one that another option follows has no value."""
    return not value.startswith("--") and is_secret(option.lstrip("-").replace("-", "_"), value)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
