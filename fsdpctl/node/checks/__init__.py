"""One thing about a node each: what is wrong with it, what is doubtful."""
