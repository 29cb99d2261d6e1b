"""Common to all parts of a trainer's configuration: strict types, and checks of the ranges of numbers."""

from __future__ import annotations

from fsdpctl.contract.problems import broken_rule

STRICT = {"extra": "forbid", "strict": True}
"""Read by pydantic alone, when a job is loaded."""


def require_at_least(least: int, **numbers: float | None) -> None:
    """Raise ValueError for a number below `least`; None is one that was not given."""
    for name, number in numbers.items():
        if number is not None and number < least:
            raise broken_rule(f"{name} must be at least {least}, got {number}", name)


def require_positive(**numbers: float) -> None:
    """Raise ValueError for a number that is not greater than 0."""
    for name, number in numbers.items():
        if number <= 0:
            raise broken_rule(f"{name} must be greater than 0, got {number}", name)


def require_fraction(**numbers: float) -> None:
    """Raise ValueError for a number outside of [0, 1)."""
    for name, number in numbers.items():
        if not 0 <= number < 1:
            raise broken_rule(f"{name} must be in [0, 1), got {number}", name)
