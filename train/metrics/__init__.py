"""Metrics of each step: from the device to files."""
