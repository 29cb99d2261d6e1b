"""The supervisor of a run without a scheduler, detached from the command that started it."""
