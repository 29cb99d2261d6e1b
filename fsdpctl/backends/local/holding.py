"""Hold this machine: a record keeps other runs of its user away."""

from fsdpctl.backends.reservation import look, release, take

__all__ = ["look", "release", "take"]
