"""`fsdpctl doctor`: check every node of a profile, and compare the nodes with each other."""
