"""Runs on disk: the record, the registry, and the facts about a run's state."""
