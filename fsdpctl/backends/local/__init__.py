"""This machine: each node is a process group of its own."""
