"""The local backend: each node is a process group on this machine."""
