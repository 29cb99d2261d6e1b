"""Holds: nodes that stay with a user between runs. Their records, and when they end."""
