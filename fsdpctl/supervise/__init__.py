"""Attempts of a run, one after the other: what an end means, and what follows."""
