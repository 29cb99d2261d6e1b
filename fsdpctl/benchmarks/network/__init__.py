"""Collectives over all ranks, then pairs of nodes in rounds that find the slow one."""
