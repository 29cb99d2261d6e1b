"""`fsdpctl profiles init --look`: describe a cluster by looking at it, and write that as a profile."""
