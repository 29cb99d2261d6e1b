"""Measurements. Each module is one table: `python -m bench.NAME`."""
