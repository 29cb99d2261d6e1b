"""Runs without a scheduler: a supervisor of their own, detached from the command that started it."""
