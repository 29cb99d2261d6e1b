"""Checkpoints without a trainer: list, verify, prune, export. One process, on a CPU, a tensor at a time."""
