"""Processes, signals, addresses and ports of this host."""
