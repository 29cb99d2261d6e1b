"""Bare SSH: hosts, keys, connections, and the agents started over them."""
