"""Checks of one node, one module each: they return failures and warnings."""
