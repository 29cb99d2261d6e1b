"""Checkpoints: when to save, staging, writing, verifying, loading."""
