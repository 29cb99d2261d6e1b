"""`fsdpctl doctor`: look at every node of a profile, and compare them. `request` and `compare` are pure."""
