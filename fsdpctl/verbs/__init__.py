"""The operations on a run: one module for each, without printing."""
