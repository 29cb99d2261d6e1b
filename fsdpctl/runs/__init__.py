"""Runs on disk: the record, the registry, and what state a run is in."""
