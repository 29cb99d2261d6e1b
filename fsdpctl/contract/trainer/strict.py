"""What the parts of a trainer's configuration have in common: strict types, and the ranges of their numbers."""

from __future__ import annotations

STRICT = {"extra": "forbid", "strict": True}
"""Read by pydantic when a job is loaded, by nobody else."""


def require_at_least(least: int, **numbers: float | None) -> None:
    """Raise ValueError that names a number below `least`; None is one that was not given."""
    for name, number in numbers.items():
        if number is not None and number < least:
            raise ValueError(f"{name} must be at least {least}, got {number}")


def require_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if number <= 0:
            raise ValueError(f"{name} must be greater than 0, got {number}")


def require_fraction(**numbers: float) -> None:
    for name, number in numbers.items():
        if not 0 <= number < 1:
            raise ValueError(f"{name} must lie in [0, 1), got {number}")
