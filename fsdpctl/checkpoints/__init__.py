"""Checkpoints without a trainer: list, verify, prune, export. One process, on a CPU, one tensor at a time."""
